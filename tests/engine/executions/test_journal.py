"""The journal of an execution: what is appended, what a crash leaves of it, and what is noticed when it was changed."""

from __future__ import annotations

import errno
import json
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_ent.engine.core import crash_points
from go_ent.engine.executions.storage import Record
from go_ent.engine.storage import journal
from go_ent.engine.storage import records as reading
from go_ent.engine.storage.journal import Journal, read_records

NAME = "journal.jsonl"
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
contents = st.lists(values, min_size=1, max_size=5)


@contextmanager
def opened(path: Path) -> Iterator[Journal]:
    one = Journal(path)
    one.open()
    try:
        yield one
    finally:
        one.close()


def written(folder: Path, data: list[Any]) -> Path:
    """A journal with a record of each, half of them with JSON that was given as it is."""
    with opened(folder / NAME) as one:
        for number, value in enumerate(data):
            if number % 2:
                one.append("answer", {"path": "a/1"}, raw={"value": json.dumps(value).encode()})
            else:
                one.append("call", {"value": value})
    return folder / NAME


def mended(path: Path) -> list[Record]:
    """What its owner is given when it opens it."""
    found: list[Record] = []
    one = Journal(path)
    one.open(found.append)
    one.close()
    return found


def numbers(path: Path) -> list[int]:
    return [record["seq"] for record in read_records(path).records]


def texts(path: Path) -> list[str]:
    return [record["text"] for record in read_records(path).records if record["kind"] == "note"]


class TestAppending:
    def test_a_record_is_one_line_of_json_that_ends_with_its_checksum(self, tmp_path: Path) -> None:
        with opened(tmp_path / NAME) as one:
            assert one.append("call", {"path": "a/1"}, raw={"answer": b'[1, 1, {"x":NaN}]'}) == 1
            assert one.append("note", {"text": "x"}) == 2
            assert one.size == (tmp_path / NAME).stat().st_size
        first = (tmp_path / NAME).read_text().splitlines()[0]
        assert list(json.loads(first)) == ["at", "seq", "kind", "path", "answer", "crc"]
        assert '"answer":[1, 1, {"x":NaN}],"crc":"' in first

    def test_what_is_no_number_in_json_is_written_as_null(self, tmp_path: Path) -> None:
        assert read_records(written(tmp_path, [float("nan")])).records[0]["value"] is None

    @pytest.mark.parametrize(
        ("data", "raw"), [({"text": "x" * 200}, None), ({}, {"answer": b"1" * 200}), ({}, {"answer": b"[1,\n2]"})]
    )
    def test_what_can_not_be_a_line_is_refused_before_anything_is_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: dict[str, Any], raw: dict[str, bytes] | None
    ) -> None:
        monkeypatch.setattr(reading, "MAX_LINE", 150)
        with opened(tmp_path / NAME) as one:
            with pytest.raises(ValueError, match=r"too long|line break"):
                one.append("x", data, raw=raw)
            assert (one.size, one.append("y", {})) == (0, 1)

    def test_it_does_not_grow_beyond_what_can_be_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(journal, "MAX_JOURNAL", 200)
        with opened(tmp_path / NAME) as one:
            one.append("x", {})
            with pytest.raises(OSError, match="may have 200 bytes") as caught:
                one.append("y", {"text": "x" * 150})
            assert caught.value.errno == errno.EFBIG
        assert numbers(one.path) == [1]

    def test_a_full_disk_leaves_no_half_of_a_record(self, tmp_path: Path) -> None:
        with opened(tmp_path / NAME) as one:
            one.append("a", {})
            crash_points.arm("full:1")
            try:
                with pytest.raises(OSError, match="No space left"):
                    one.append("b", {})
            finally:
                crash_points.arm(None)
            assert one.size == one.path.stat().st_size
            one.append("c", {})
        assert [(record["seq"], record["kind"]) for record in read_records(one.path).records] == [(1, "a"), (2, "c")]

    def test_half_a_record_that_can_not_be_taken_away_is_the_last(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object) -> None:
            raise OSError(errno.EIO, "Input/output error")

        with opened(tmp_path / NAME) as one:
            one.append("a", {})
            with monkeypatch.context() as patch:
                patch.setattr(os, "ftruncate", broken)
                crash_points.arm("full:1")
                with pytest.raises(OSError, match="No space left"):
                    one.append("b", {})
                crash_points.arm(None)
            with pytest.raises(OSError, match="can't be written any more"):
                one.append("c", {})
        assert numbers(one.path) == [1]
        assert [record["kind"] for record in mended(one.path)] == ["a"]

    def test_one_sync_serves_all_who_wait_for_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        syncs, first, go_on = [], threading.Event(), threading.Event()
        real = os.fdatasync

        def slow(handle: int) -> None:
            syncs.append(handle)
            first.set()
            go_on.wait()
            real(handle)

        monkeypatch.setattr(os, "fdatasync", slow)
        all_appended = threading.Barrier(9, action=go_on.set)

        def work() -> None:
            one.append("a", {})
            all_appended.wait()
            one.sync()

        with opened(tmp_path / NAME) as one:
            threads = [threading.Thread(target=lambda: one.append("first", {}, sync=True))]
            threads[0].start()
            first.wait()
            threads += [threading.Thread(target=work) for _ in range(8)]
            for thread in threads[1:]:
                thread.start()
            all_appended.wait()
            for thread in threads:
                thread.join()
            assert len(syncs) == 2
            one.sync()
            assert len(syncs) == 2

    def test_a_sync_that_failed_is_not_believed_the_second_time(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(_: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        with opened(tmp_path / NAME) as one:
            with monkeypatch.context() as patch:
                patch.setattr(os, "fdatasync", broken)
                with pytest.raises(OSError, match="Input/output error"):
                    one.append("a", {}, sync=True)
            with pytest.raises(OSError, match="can't be written any more"):
                one.sync()


class TestAfterACrash:
    @given(data=contents, place=st.floats(0, 1))
    @settings(max_examples=60, deadline=None)
    def test_cut_anywhere_it_reads_as_what_came_first(self, data: list[Any], place: float) -> None:
        with tempfile.TemporaryDirectory() as name:
            path = written(Path(name), data)
            whole = read_records(path)
            os.truncate(path, round(place * whole.size))
            found = read_records(path)
            assert found.records == whole.records[: len(found.records)]
            assert not found.gaps
            assert found.size + found.torn == path.stat().st_size
            assert mended(path) == found.records
            assert not read_records(path).torn

    def test_a_torn_last_line_is_cut_off_and_noted(self, tmp_path: Path) -> None:
        path = written(tmp_path, [1, 2])
        with open(path, "ab") as file:
            file.write(b'{"at":1.0,"seq":3,"ki')
        assert read_records(path).torn == 21
        assert [record["seq"] for record in mended(path)] == [1, 2]
        assert texts(path) == ["the last record was torn by a crash and cut off: 21 bytes"]
        with opened(path) as one:
            assert one.append("x", {}) == 4
        assert numbers(path) == [1, 2, 3, 4]
        assert os.listdir(tmp_path) == [NAME]

    def test_a_last_line_that_was_changed_is_cut_off_too_and_kept(self, tmp_path: Path) -> None:
        path = written(tmp_path, [1, 2])
        damaged = path.read_bytes().replace(b'"value":2', b'"value":3')
        path.write_bytes(damaged)
        assert [record["seq"] for record in mended(path)] == [1]
        assert texts(path) == [
            f"the last record was torn by a crash and cut off: {len(damaged.splitlines()[1]) + 1} bytes",
            "the journal was damaged, and is kept as it was in journal.damaged-1.jsonl",
        ]
        assert (tmp_path / "journal.damaged-1.jsonl").read_bytes() == damaged


class TestDamage:
    @given(data=contents, place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
    @settings(max_examples=60, deadline=None)
    def test_a_byte_that_was_changed_anywhere_is_noticed(self, data: list[Any], place: float, change: int) -> None:
        with tempfile.TemporaryDirectory() as name:
            path = written(Path(name), data)
            good = read_records(path).records
            damaged = bytearray(path.read_bytes())
            damaged[int(place * len(damaged))] ^= change
            path.write_bytes(damaged)
            found = read_records(path)
            assert found.gaps or found.torn
            assert all(record in good or "lost" in record for record in found.records)
            assert mended(path) == found.records
            after = read_records(path)
            assert not after.gaps
            assert not after.torn
            assert after.records[: len(found.records)] == found.records
            kept = [one.read_bytes() for one in Path(name).glob("journal.damaged-*")]
            assert kept == [bytes(damaged)] or damaged[-1:] != b"\n"

    def test_each_byte_counts(self, tmp_path: Path) -> None:
        path = written(tmp_path, [1, 2])
        whole, good = path.read_bytes(), read_records(path).records
        for place in range(len(whole)):
            for change in (1, 2, 0x20, 0x80):
                damaged = bytearray(whole)
                damaged[place] ^= change
                path.write_bytes(damaged)
                found = read_records(path)
                assert found.gaps or found.torn
                assert all(record in good or "lost" in record for record in found.records)

    def test_what_is_whole_before_and_after_it_stays(self, tmp_path: Path) -> None:
        path = written(tmp_path, [1, 2, 3, 4, 5])
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(lines[0] + b"rubbish\n" + b"more\n" + b"".join(lines[3:]))
        found = read_records(path)
        assert [(record["seq"], record.get("lost")) for record in found.records] == [
            (1, None),
            (3, [2, 3]),
            (4, None),
            (5, None),
        ]
        assert found.records[1]["text"] == "records 2 to 3 are lost: the journal was damaged"
        before = path.read_bytes()
        assert mended(path) == found.records
        assert (tmp_path / "journal.damaged-1.jsonl").read_bytes() == before
        assert numbers(path) == [1, 3, 4, 5, 6]
        assert texts(path)[-1] == "the journal was damaged, and is kept as it was in journal.damaged-1.jsonl"

    def test_a_second_damage_does_not_take_the_place_of_the_first(self, tmp_path: Path) -> None:
        path = written(tmp_path, [1, 2, 3])
        for _ in range(2):
            lines = path.read_bytes().splitlines(keepends=True)
            path.write_bytes(b"".join(lines[:1] + lines[2:]))
            mended(path)
        assert sorted(os.listdir(tmp_path)) == ["journal.damaged-1.jsonl", "journal.damaged-2.jsonl", NAME]

    @pytest.mark.parametrize(
        "line", [b"[]\n", b"{}\n", b"\n", b"null\n", b"\xff\xfe\n", b"\0" * 50 + b"\n", b"[" * 100_000 + b"\n"]
    )
    def test_a_line_that_was_put_in_loses_nothing_and_is_kept(self, tmp_path: Path, line: bytes) -> None:
        path = written(tmp_path, [1, 2])
        first, second = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(first + line + second)
        assert [record["seq"] for record in mended(path)] == [1, 2]
        assert line in (tmp_path / "journal.damaged-1.jsonl").read_bytes()

    @pytest.mark.parametrize("seq", ["-1", "0", "1", "true", "1.0", "NaN", "null", '"2"', "9" * 30, "9" * 5000])
    def test_a_number_that_does_not_follow_is_damage(self, tmp_path: Path, seq: str) -> None:
        path = written(tmp_path, [1])
        with open(path, "ab") as file:
            file.write(f'{{"seq":{seq},"at":1.0,"kind":"x"}}\n{{"seq":3,"at":1.0,"kind":"y"}}\n'.encode())
        assert [(record["seq"], record["kind"]) for record in read_records(path).records] == [
            (1, "call"),
            (2, "note"),
            (3, "y"),
        ]

    def test_a_line_that_is_too_long_is_passed_over(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = written(tmp_path, [1, 2, 3])
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(lines[0] + b"x" * 3_000_000 + b"\n" + lines[2])
        monkeypatch.setattr(reading, "MAX_LINE", 1000)
        assert numbers(path) == [1, 2, 3]
        assert read_records(path).gaps[0].size == 3_000_001

    def test_a_whole_end_that_is_damaged_is_more_than_torn(self, tmp_path: Path) -> None:
        path = written(tmp_path, [1])
        size = path.stat().st_size
        with open(path, "ab") as file:
            file.write(b"x\ny\n")
        found = read_records(path)
        assert [tuple(gap) for gap in found.gaps] == [(2, 3, size, 4)]
        assert found.torn == 0

    def test_lines_of_an_older_version_have_no_checksum(self, tmp_path: Path) -> None:
        path = tmp_path / NAME
        path.write_bytes(b"".join(b'{"seq":%d,"at":1.5,"kind":"try","step":"a"}\n' % number for number in (1, 2, 3)))
        assert numbers(path) == [1, 2, 3]
        with opened(path) as one:
            assert one.append("x", {}) == 4
        assert not read_records(path).gaps

    def test_a_record_that_is_missing_is_noticed_without_checksums_too(self, tmp_path: Path) -> None:
        path = tmp_path / NAME
        path.write_bytes(b"".join(b'{"seq":%d,"at":1.5,"kind":"x"}\n' % number for number in (1, 3, 4, 9, 5)))
        assert [(record["seq"], record["kind"]) for record in read_records(path).records] == [
            (1, "x"),
            (3, "note"),
            (4, "x"),
            (5, "x"),
        ]


class TestReadingOn:
    def test_from_where_one_stopped(self, tmp_path: Path) -> None:
        path = written(tmp_path, [1, 2])
        size = read_records(path).size
        with opened(path) as one:
            one.append("x", {})
        assert [record["seq"] for record in read_records(path, offset=size).records] == [3]

    def test_a_place_fits_if_the_next_record_is_there(self, tmp_path: Path) -> None:
        path = written(tmp_path, [1, 2])
        first = len(path.read_bytes().splitlines(keepends=True)[0])
        end = path.stat().st_size
        assert [reading.fits(path, first, 1), reading.fits(path, end, 2)] == [True, True]
        assert [reading.fits(path, *one) for one in [(first, 2), (first + 1, 1), (end + 1, 2), (0, 0), (-1, 0)]] == [
            False
        ] * 5
