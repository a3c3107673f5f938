"""The chain: every summary with what it replaced, kept for good, and readable whatever lies beside it."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from go_ent.engine.context import chain as chains
from go_ent.engine.context.chain import Chain, digest_of, summary_id
from go_ent.engine.context.models import Message, Speaker, SummaryLink
from go_ent.engine.core.errors import BadState, BadTask, StorageFailed
from go_ent.engine.storage.attachments import FileAttachments


def message(name: str, text: str = "", speaker: Speaker = "user") -> Message:
    return Message(id=name, speaker=speaker, text=text or f"text of {name}", tokens=3, at=1.5, source="a step")


def link(replaced: list[Message], summary: str = "in short") -> SummaryLink:
    return SummaryLink(
        number=1,
        replaced=tuple(one.id for one in replaced),
        digest=digest_of(replaced),
        summary=summary,
        by="deterministic",
        tokens_before=30,
        tokens_after=3,
        tried=("claude-code: no answer",),
        at=2.5,
    )


def standing_for(one: SummaryLink) -> Message:
    return message(summary_id(one.replaced, one.digest), one.summary, "summary")


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(FileAttachments(tmp_path / "context"))


def folder_of(chain: Chain) -> Path:
    return Path(chain.attachments.where)


class TestKeeping:
    def test_a_link_and_what_it_replaced_come_back_as_they_were(self, chain: Chain) -> None:
        originals = [message("a", "Grüße\n`x`\0 \u2028 \ud800"), message("b")]
        kept = chain.add(link(originals), originals)
        again = Chain(FileAttachments(folder_of(chain)))
        assert again.links() == [kept]
        assert again.expand(1) == originals
        assert again.check() == []

    def test_links_are_numbered_in_their_order_whatever_number_they_came_with(self, chain: Chain) -> None:
        numbers = [chain.add(link([message(name)]), [message(name)]).number for name in "abc"]
        assert numbers == [1, 2, 3]
        assert [one.replaced for one in chain.links()] == [("a",), ("b",), ("c",)]

    def test_two_at_once_get_a_number_each(self, chain: Chain) -> None:
        with ThreadPoolExecutor(8) as pool:
            numbers = [
                *pool.map(lambda at: chain.add(link([message(f"m{at}")]), [message(f"m{at}")]).number, range(16))
            ]
        assert sorted(numbers) == [*range(1, 17)]
        assert chain.check() == []

    def test_the_files_are_for_their_owner_alone(self, chain: Chain) -> None:
        chain.add(link([message("a")]), [message("a")])
        modes = {
            path.name: stat.S_IMODE(path.stat().st_mode)
            for path in folder_of(chain).iterdir()
            if path.suffix in {".json", ".jsonl"}
        }
        assert modes == {"0001.json": 0o600, "0001.messages.jsonl": 0o600}
        assert stat.S_IMODE(folder_of(chain).stat().st_mode) == 0o700

    def test_a_file_that_is_there_is_never_written_over(self, chain: Chain) -> None:
        folder_of(chain).mkdir()
        left = folder_of(chain) / "0001.messages.jsonl"
        left.write_text("left by a crash")
        assert chain.add(link([message("a")]), [message("a")]).number == 2
        assert left.read_text() == "left by a crash"
        assert chain.check() == ["0001.messages.jsonl belongs to no link"]

    def test_messages_that_are_not_those_of_the_link_are_refused(self, chain: Chain) -> None:
        with pytest.raises(BadTask, match="not the messages"):
            chain.add(link([message("a")]), [message("a", "another text")])
        assert not folder_of(chain).exists()

    def test_what_is_too_large_is_refused_before_anything_is_written(
        self, chain: Chain, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(chains, "MAX_MESSAGES", 100)
        large = [message("a", "x" * 200)]
        with pytest.raises(StorageFailed, match="too large to be kept"):
            chain.add(link(large), large)
        assert chain.links() == []

    def test_a_folder_that_is_a_link_is_not_written_to(self, chain: Chain, tmp_path: Path) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        folder_of(chain).symlink_to(elsewhere)
        with pytest.raises(StorageFailed, match="is a link"):
            chain.add(link([message("a")]), [message("a")])
        assert chain.links() == []
        assert "is a link" in chain.check()[0]
        assert [*elsewhere.iterdir()] == []


class TestExpanding:
    def test_a_summary_of_summaries_goes_back_to_the_originals(self, chain: Chain) -> None:
        first = [message("a"), message("b")]
        one = chain.add(link(first, "a and b"), first)
        second = [standing_for(one), message("c")]
        two = chain.add(link(second, "a to c"), second)
        third = [standing_for(two), message("d")]
        chain.add(link(third, "a to d"), third)
        assert chain.expand(3) == third
        assert [one.id for one in chain.expand(3, deep=True)] == ["a", "b", "c", "d"]
        assert chain.expand(2, deep=True) == [*first, message("c")]

    def test_a_message_that_only_has_the_id_of_a_summary_is_left_as_it_is(self, chain: Chain) -> None:
        one = chain.add(link([message("a")]), [message("a")])
        forged = [standing_for(one).model_copy(update={"text": "something else"})]
        chain.add(link(forged), forged)
        assert chain.expand(2, deep=True) == forged

    def test_a_summary_that_is_there_many_times_is_put_back_once(self, chain: Chain) -> None:
        """So what comes out is never more than all that was kept."""
        one = chain.add(link([message("a")]), [message("a")])
        many = [standing_for(one)] * 50
        chain.add(link(many), many)
        assert [one.id for one in chain.expand(2, deep=True)].count("a") == 1

    def test_a_number_that_is_not_there_says_which_are(self, chain: Chain) -> None:
        chain.add(link([message("a")]), [message("a")])
        with pytest.raises(BadTask, match="there is no summary 7; there are: 1"):
            chain.expand(7)


class TestDamage:
    def _two(self, chain: Chain) -> None:
        for name in "ab":
            chain.add(link([message(name)]), [message(name)])

    @pytest.mark.parametrize(
        ("data", "said"),
        [
            (b"", "damaged"),
            (b"{}", "damaged"),
            (b"[" * 100_000, "RecursionError"),
            (b"9" * 10_000, "ValueError"),
            (b"\xff\xfe", "UnicodeDecodeError"),
        ],
    )
    def test_a_damaged_link_is_told_and_hides_no_other(self, chain: Chain, data: bytes, said: str) -> None:
        self._two(chain)
        (folder_of(chain) / "0001.json").write_bytes(data)
        assert [one.number for one in chain.links()] == [2]
        [problem] = chain.check()
        assert problem.startswith("0001.json")
        assert said in problem

    def test_a_link_under_another_number_is_damaged(self, chain: Chain) -> None:
        self._two(chain)
        os.replace(folder_of(chain) / "0002.json", folder_of(chain) / "0001.json")
        assert chain.links() == []
        assert "it says that it is number 2" in chain.check()[0]

    @pytest.mark.parametrize("change", ["text", "torn", "missing", "more"])
    def test_originals_that_were_changed_are_told_by_the_check_and_not_shown(self, chain: Chain, change: str) -> None:
        self._two(chain)
        path = folder_of(chain) / "0002.messages.jsonl"
        line = path.read_bytes()
        if change == "missing":
            path.unlink()
        else:
            other = json.dumps(json.loads(line) | {"text": "never said"}).encode() + b"\n"
            path.write_bytes({"text": other, "torn": line[:-5], "more": line + other}[change])
        [problem] = chain.check()
        assert problem.startswith("0002.messages.jsonl")
        with pytest.raises(BadState):
            chain.expand(2)
        assert chain.expand(1) == [message("a")]
        assert [one.number for one in chain.links()] == [1, 2]

    def test_what_is_no_ordinary_file_is_not_read(self, chain: Chain, tmp_path: Path) -> None:
        self._two(chain)
        secret = tmp_path / "secret.json"
        secret.write_bytes((folder_of(chain) / "0001.json").read_bytes())
        (folder_of(chain) / "0001.json").unlink()
        (folder_of(chain) / "0001.json").symlink_to(secret)
        os.mkfifo(folder_of(chain) / "0003.json")
        assert [one.number for one in chain.links()] == [2]
        assert [problem.partition(" ")[0] for problem in chain.check()] == ["0001.json", "0003.json"]

    def test_a_giant_is_not_read_and_a_folder_without_end_is_no_chain(
        self, chain: Chain, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._two(chain)
        os.truncate(folder_of(chain) / "0001.json", chains.MAX_LINK + 1)
        os.truncate(folder_of(chain) / "0002.messages.jsonl", 1 << 40)
        assert [one.number for one in chain.links()] == [2]
        monkeypatch.setattr(chains, "MAX_MESSAGES", 1 << 20)
        assert [problem.partition(" is larger")[0] for problem in chain.check()] == ["0001.json", "0002.messages.jsonl"]
        monkeypatch.setattr(chains, "MAX_FILES", 3)
        assert chain.links() == []
        assert "more than 3 files" in chain.check()[0]
