"""Clients of one HTTP server against each other: what one takes or changes is not another's."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from engine.logs import keep_plain
from tests.engine.serving import Served, ask
from tests.security.corpus import attack
from tests.security.wire import ALICE, INITIALIZE, TOOL, guarded, request


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


class TestTheLog:
    """The operator's terminal shows what a client did wrong in one short line that it can't write itself."""

    @attack("http", "escapes, lines and megabytes of a client on the operator's terminal")
    def test_what_a_client_says_is_escaped_and_cut(self, tmp_path: Path) -> None:
        hostile = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m\nforged: all is well\r"
        with guarded(tmp_path / "project", most=4 << 20) as served:
            opened = request(served, token=ALICE, body=INITIALIZE).header("mcp-session-id")
            session = {"Mcp-Session-Id": opened, "Mcp-Protocol-Version": "2025-06-18"}
            for name in (hostile, hostile + "x" * 3_000_000):
                for method, params in (
                    ("resources/read", {"uri": f"go-ent://executions/{quote(hostile)}{name}/log"}),
                    ("resources/read", {"uri": f"go-ent://executions/{quote(name)[: 3 << 20]}/log"}),
                    ("resources/read", {"uri": f"go-ent://stubs/{quote(hostile)}{'x' * len(name)}"}),
                    ("resources/read", {"uri": name}),
                    ("prompts/get", {"name": name, "arguments": {}}),
                    ("prompts/get", {"name": "author_composed_tool", "arguments": {name: "x"}}),
                    ("tools/call", {"name": name, "arguments": {}}),
                    ("tools/call", {"name": "tool_run", "arguments": {"name": name}}),
                    ("tools/call", {"name": "code_execute", "arguments": {name: 1}}),
                    (name, {}),
                    ("notifications/cancelled", {"requestId": 1, "reason": name}),
                    ("notifications/progress", {name: name}),
                ):
                    about = {"jsonrpc": "2.0", "method": method, "params": params}
                    request(served, token=ALICE, body=about if method.startswith("notif") else {**about, "id": 7}, headers=session)
            for body in (b"{" + hostile.encode(), b"[" * 100_000, b'{"jsonrpc": "2.0", "method": "' + b"\\u001b" * 1000 + b'"}'):
                request(served, token=ALICE, body=body)
            told = served.said()
        lines = told.splitlines()
        assert all(char.isprintable() or char == "\n" for char in told)
        assert max(map(len, lines)) < 2_000
        assert not [line for line in lines if line.startswith("forged")]
        assert "Traceback" not in told
        assert "Error reading resource" in told
        assert len(told) < 100_000

    @attack("secrets", "a traceback of a library that quotes a client")
    def test_a_library_s_traceback_is_one_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        logger = logging.getLogger("mcp.test")
        handler = logging.StreamHandler(sys.stderr)  # a library's own, with its own format
        logger.addHandler(handler)
        before = logging.getLogRecordFactory()
        keep_plain()
        try:
            try:
                raise ValueError("\x1b[31m" + "x" * 100_000)
            except ValueError:
                logger.exception("it %s", "\x1bfailed\n")
            logger.error("%d of %s", "not a number")  # noqa: PLE1206
        finally:
            logging.setLogRecordFactory(before)
            logger.removeHandler(handler)
        first, second = capsys.readouterr().err.splitlines()
        assert first.startswith("it \\x1bfailed\\n: ValueError: \\x1b[31mxxx")
        assert "characters cut" in first
        assert len(first) < 1_500
        assert second == "%d of %s (TypeError in its arguments)"
