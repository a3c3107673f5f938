"""Clients of one HTTP server against each other: what one takes or changes is not another's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.serving import Served, ask
from tests.security.corpus import attack
from tests.security.wire import ALICE, TOOL, guarded


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with guarded(tmp_path_factory.mktemp("sharing") / "project") as server:
        yield server


class TestStores:
    @attack("http", "a tool of the user's own store, deleted or rolled back by a client")
    def test_a_token_ends_with_its_project(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "user"))
        store = tmp_path / "user" / "composed-tools"
        store.mkdir(parents=True)
        (store / "own.py").write_text(TOOL.format("own", "n"))
        with guarded(tmp_path / "project") as served:
            assert ask(served, "tool_run", token=ALICE, name="own", inputs={"n": 7})[1]["result"] == 7, "it may be run"
            before = {path: path.read_bytes() for path in store.rglob("*.py")}
            for failed, said in (
                ask(served, "tool_delete", token=ALICE, name="own"),
                ask(served, "tool_rollback", token=ALICE, name="own", version=1),
            ):
                assert failed
                assert "own is in the user's own store" in said
                assert "over HTTP only this project's tools can be changed" in said
            assert ask(served, "tool_compose", token=ALICE, source=TOOL.format("own", "-n"))[0] is False
            assert ask(served, "tool_run", token=ALICE, name="own", inputs={"n": 7})[1]["result"] == -7, "in this project alone"
            assert {path: path.read_bytes() for path in store.rglob("*.py")} == before
            assert ask(served, "tool_delete", token=ALICE, name="own")[1]["scope"] == "project"
            assert ask(served, "tool_run", token=ALICE, name="own", inputs={"n": 7})[1]["result"] == 7
            (store / "own.py").unlink()
            failed, said = ask(served, "tool_rollback", token=ALICE, name="own", version=1)
            assert failed is False, "the project has had one of that name"
            assert not (store / "own.py").exists()

    @attack("http", "a store named in a call")
    def test_a_client_names_no_store(self, served: Served) -> None:
        failed, said = ask(served, "tool_compose", token=ALICE, source=TOOL.format("elsewhere", "n"), scope="global")
        assert failed
        assert "scope" in said
