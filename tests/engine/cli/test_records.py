"""`go-ent executions`: reindex, prune and totals, as they are printed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from go_ent.composer.errors import ConfigError
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.commands.executions.records import prune_command, reindex_command, totals_command
from go_ent.engine.executions.history import CallTotals
from go_ent.engine.executions.totals import records_from
from go_ent.engine.storage.index import FILE
from tests.engine.executions.test_executions import fresh
from tests.engine.executions.test_index import attempt, made, step
from tests.support.executions import FileStore


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileStore:
    (tmp_path / ".go-ent").mkdir()
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    return FileStore(tmp_path)


def test_reindex_says_how_many_there_are(store: FileStore, capsys: pytest.CaptureFixture[str]) -> None:
    made(store)
    store.index.close()
    (store.folder / FILE).write_bytes(b"garbage")
    assert reindex_command() == 0
    assert capsys.readouterr().out == "1 execution is in the index\n"
    assert reindex_command(json_=True) == 0
    assert json.loads(capsys.readouterr().out) == {"executions": 1}


class TestPrune:
    def test_by_what_is_given(self, store: FileStore, capsys: pytest.CaptureFixture[str]) -> None:
        ids = [made(store) for _ in range(3)]
        assert prune_command(keep=2, dry_run=True) == 0
        assert capsys.readouterr().out == f"{ids[0]}\n"
        assert prune_command(keep=2, json_=True) == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["removed"], said["dry_run"], said["kept_resumable"]) == ([ids[0]], False, 0)
        assert prune_command(older_than="1s", max_size="0") == 0
        assert capsys.readouterr().out.startswith("removed 2 executions, 0.0 MB")
        assert not [name for name in os.listdir(store.folder) if name in ids]

    def test_else_by_the_configuration(self, store: FileStore, capsys: pytest.CaptureFixture[str]) -> None:
        ids = [made(store) for _ in range(3)]
        assert prune_command(json_=True) == 0
        assert json.loads(capsys.readouterr().out)["removed"] == []
        (store.folder.parent / "config.toml").write_text("[executions]\nkeep = 1\n")
        assert prune_command(json_=True) == 0
        assert json.loads(capsys.readouterr().out)["removed"] == ids[:2]
        (store.folder.parent / "config.toml").write_text("[executions]\ndays = 0\n")
        with pytest.raises(ConfigError, match=r"executions\.days"):
            prune_command()

    def test_what_can_be_resumed_goes_when_asked(self, store: FileStore, capsys: pytest.CaptureFixture[str]) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            held.move("interrupted")
        assert prune_command(keep=0) == 0
        said = capsys.readouterr()
        assert said.out.startswith("removed 0 executions")
        assert said.err == "1 more is kept because a resume can go on: --resumable removes those too\n"
        assert prune_command(keep=0, resumable=True) == 0
        assert capsys.readouterr().out.startswith("removed 1 execution, ")

    @pytest.mark.parametrize("text", ["", "30", "d", "-1d", "0d", "1y", "1e9d", "999999999w", "٣d", "1d2h"])
    def test_a_time_that_is_none(self, store: FileStore, text: str) -> None:
        with pytest.raises(UsageError, match="--older-than is a time like"):
            prune_command(older_than=text)

    @pytest.mark.parametrize("text", ["", "G", "-1", "1X", "1e3", "2 GG"])
    def test_a_size_that_is_none(self, store: FileStore, text: str) -> None:
        with pytest.raises(UsageError, match="--max-size is a size like 500M or 2G"):
            prune_command(max_size=text)

    def test_a_number_that_is_none(self, store: FileStore) -> None:
        with pytest.raises(UsageError, match="0 or more, not -1"):
            prune_command(keep=-1)


class TestTotals:
    def test_a_table(self, store: FileStore, capsys: pytest.CaptureFixture[str]) -> None:
        name = made(store)
        state = fresh(results={"task": step("task", attempt("cl\x1b[2Jaude", cost_usd=0.25), attempt("cli"))})
        store.index.note(name, records_from(state), {"search": CallTotals(3, 1, 20.0, state.updated)})
        assert totals_command() == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].split("  ")[0] == "runtime"
        assert "\x1b" not in lines[1]
        assert "$0.2500" in lines[1]
        assert lines[2].split()[:6] == ["cli", "1", "1", "0", "-", "1"]
        assert totals_command(by="tool", since="1h", json_=True) == 0
        assert json.loads(capsys.readouterr().out)["search"]["successes"] == 2

    def test_of_nothing(self, store: FileStore, capsys: pytest.CaptureFixture[str]) -> None:
        assert totals_command(by="day", since="7d") == 0
        said = capsys.readouterr()
        assert (said.out, said.err) == ("", "no executions within 7d\n")
        assert totals_command(json_=True) == 0
        assert json.loads(capsys.readouterr().out) == {}

    def test_a_time_that_is_none(self, store: FileStore) -> None:
        with pytest.raises(UsageError, match="--since is a time like"):
            totals_command(since="soon")
