"""Clients of one HTTP server against each other: what one takes or changes is not another's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import select
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastmcp import Client

from go_ent.composer.catalogue.spec import CallContext
from go_ent.composer.codemode.codemode import Results
from go_ent.engine.core.logs import keep_plain
from go_ent.engine.server.http.admission import ALONE, PARSED_BYTES, Admission, Busy
from go_ent.engine.server.http.connections import ROOM, Connection, Lobby
from go_ent.sandbox import ToolError
from go_ent.sandbox.host.sharing import CALLER
from tests.security.corpus import attack
from tests.security.wire import (
    ALICE,
    BOB,
    CAROL,
    CONNECTIONS,
    INITIALIZE,
    LIST,
    META,
    MODERN,
    TOOL,
    Raw,
    connect,
    guarded,
    read,
    request,
)
from tests.support.serving import Served, ask, say, talk


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
            assert ask(served, "tool_run", token=ALICE, name="own", inputs={"n": 7})[1]["result"] == -7, (
                "in this project alone"
            )
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
            for name in (hostile, hostile + "x" * 300_000):
                for method, params in (
                    ("resources/read", {"uri": f"go-ent://executions/{quote(hostile)}{name}/log"}),
                    ("resources/read", {"uri": f"go-ent://executions/{quote(name)[: 300 << 10]}/log"}),
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
                    request(
                        served,
                        token=ALICE,
                        body=about if method.startswith("notif") else {**about, "id": 7},
                        headers=session,
                    )
            for body in (
                b"{" + hostile.encode(),
                b"[" * 100_000,
                b'{"jsonrpc": "2.0", "method": "' + b"\\u001b" * 1000 + b'"}',
            ):
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


def call(tool: str, **arguments: object) -> tuple[dict[str, object], dict[str, str]]:
    """A call's body and headers, for the newest protocol."""
    params = {
        "name": tool,
        "arguments": arguments,
        "_meta": {f"io.modelcontextprotocol/{name}": value for name, value in META.items()},
    }
    body: dict[str, object] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return body, {"Mcp-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": tool}


def begin(served: Served, token: str, body: dict[str, object] | None, headers: dict[str, str]) -> socket.socket:
    """Send a request, and leave it at that: its answer comes when it comes."""
    sent = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
    lines = [f"{'GET' if body is None else 'POST'} /mcp HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}"]
    lines += [
        f"Content-Length: {len(sent)}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
    ]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    connection = connect(served)
    connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + sent)
    return connection


def status(connection: socket.socket) -> int:
    """The status of an answer that has begun; 0 if the other end has closed."""
    try:
        return Raw(connection.recv(1 << 16)).status
    except ConnectionError:
        return 0


class TestConnections:
    @attack("http", "streams of one client on every connection")
    def test_streams_of_one_client_keep_nobody_out(self, served: Served) -> None:
        opened = request(served, token=ALICE, body=INITIALIZE).header("mcp-session-id")
        sessions = [opened] + [
            request(served, token=ALICE, body=INITIALIZE).header("mcp-session-id") for _ in range(20)
        ]
        with contextlib.ExitStack() as stack:
            answers: Counter[int] = Counter()
            for number in range(3 * CONNECTIONS):
                head = {"Mcp-Session-Id": sessions[number % len(sessions)], "Mcp-Protocol-Version": "2025-06-18"}
                stream = stack.enter_context(begin(served, ALICE, None, head))
                answers[status(stream)] += 1
            assert answers[200] <= CONNECTIONS
            assert request(served, "GET", "/healthz").status == 200
            assert request(served, token=BOB, body=INITIALIZE).status == 200
            assert ask(served, "code_execute", token=BOB, code="6 * 7")[1]["result"] == 42
            head = {"Mcp-Session-Id": opened, "Mcp-Protocol-Version": "2025-06-18"}
            assert request(served, token=ALICE, body=LIST, headers=head).status == 200, "nor its own calls"
        assert "Traceback" not in served.said()

    @attack("http", "runs of one client on every connection, and more")
    def test_a_client_that_has_as_many_as_it_may_is_told_to_retry(self, served: Served) -> None:
        """And while its runs sleep, and others of it wait, another's begin and end."""
        sleeps = call("code_execute", code="import time\ntime.sleep(60)")
        with contextlib.ExitStack() as stack:
            greedy = [stack.enter_context(begin(served, ALICE, *sleeps)) for _ in range(CONNECTIONS)]
            ready, _, _ = select.select(greedy, [], [], 30)
            assert ready, "none was refused"
            refused = Raw(read(ready[0]))  # those that sleep say nothing yet
            assert refused.status == 429
            assert refused.header("retry-after") == "1"
            assert b"as many as you may: retry when one of them has ended" in refused.body
            for _ in range(3):
                assert ask(served, "code_execute", token=BOB, code="6 * 7")[1]["result"] == 42
            assert request(served, "GET", "/healthz").status == 200
            told = request(served, "GET", "/metrics", token=CAROL).body.decode()
            running = re.search(r"^go_ent_workers(?:\{[^}]*\})? (\d+)", told, re.MULTILINE)
            assert running is not None
            assert int(running[1]) <= 32

    @attack("http", "slow heads on every connection, without a token")
    def test_who_has_no_token_holds_nothing(self, served: Served) -> None:
        with contextlib.ExitStack() as stack:
            for _ in range(2 * (CONNECTIONS + ROOM)):
                silent = stack.enter_context(connect(served))
                with contextlib.suppress(ConnectionError):
                    silent.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-")
            assert request(served, "GET", "/healthz").status == 200
            assert request(served, token=BOB, body=INITIALIZE).status == 200

    def test_who_has_most_makes_way(self) -> None:
        """A single connection from elsewhere outlasts any number from one address."""
        gone: list[str] = []

        class One(Connection):
            def __init__(self, whose: str) -> None:
                self.whose = whose

            def give_way(self) -> None:
                gone.append(self.whose)
                self.lobby.go(self)

        lobby = One.lobby = Lobby(4, 1.0)
        alone, busy = One("address 192.0.2.1"), One("address 192.0.2.2")
        assert lobby.come(alone)
        assert lobby.come(busy)
        lobby.use(busy, "client a")
        assert all(lobby.come(One("address 192.0.2.3")) for _ in range(50))
        assert set(gone) == {"address 192.0.2.3"}
        assert len(lobby) == 4


class TestRequestsThatWait:
    @attack("http", "requests that cost sixty times their bytes")
    async def test_they_wait_as_bytes_and_those_of_others_do_not_wait_for_them(self) -> None:
        admission = Admission.of(100, 64 << 20, 2)
        bomb = b"[" + b"{}," * 1_300_000 + b"0]"
        tickets = [admission.enter("greedy") for _ in range(10)]
        turns = []
        for ticket in tickets:
            ticket.grow(len(bomb))
            turns.append(ticket.room(bomb))
        assert turns[0] is None
        waiting = [turn for turn in turns if turn is not None]
        assert len(waiting) == 9
        assert admission.parsed.held.total() <= PARSED_BYTES
        usual = json.dumps([{"id": number, "name": f"row {number}", "value": 1.5} for number in range(30_000)]).encode()
        assert admission.enter("other").room(usual) is None
        tickets[0].let_go()
        assert [turn.done() for turn in waiting] == [True] + [False] * 8, "in their order"
        tickets[2].let_go()  # whoever has sent it is gone
        tickets[1].let_go()
        assert [turn.done() for turn in waiting] == [True, False, True] + [False] * 6

    @attack("http", "more bytes of waiting requests than there is room for")
    def test_their_bytes_are_bounded_for_each_and_in_all(self) -> None:
        admission = Admission.of(1000, 64 << 20, 4)
        admission.enter("greedy").grow(admission.held.most)
        more = admission.enter("greedy")
        with pytest.raises(Busy, match="as many bytes as they may be: retry when one of them has ended"):
            more.grow(1)
        for other in ("a", "b", "c"):
            admission.enter(other).grow(4 << 20)
        assert admission.held.held.total() <= 64 << 20

    def test_a_call_counts_until_it_has_ended_whoever_is_gone(self) -> None:
        admission = Admission.of(4, 1 << 20, 2)
        ticket = admission.enter("a")
        ticket.grow(10)
        with ticket.hold():
            ticket.let_go()  # the connection is gone, the call is not
            assert (admission.requests.held["a"], admission.held.held["a"]) == (1, 10)
        assert not admission.requests.held
        assert not admission.held.held

    async def test_requests_of_one_client_begin_one_after_another_where_others_are_active(self) -> None:
        admission = Admission.of(100, 1 << 20, 2)
        alone = [admission.enter("greedy") for _ in range(ALONE)]
        assert [ticket.turn() for ticket in alone] == [None] * ALONE, "nobody else is there"
        assert admission.enter("other").turn() is None
        waiting = [admission.enter("greedy") for _ in range(3)]
        turns = [turn for ticket in waiting if (turn := ticket.turn()) is not None]
        assert len(turns) == 3
        assert admission.enter("third").turn() is None, "nor does another wait for them"
        for ticket in alone:
            ticket.let_go()
        assert [turn.done() for turn in turns] == [True, False, False]
        waiting[0].let_go()
        assert [turn.done() for turn in turns] == [True, True, False]
        await turns[2]  # the second has not ended, but is young no more


class TestKeptResults:
    @attack("http", "another client's kept result, pushed out")
    def test_results_push_out_their_own_client_s_alone(self) -> None:
        results = Results(lambda: 2)

        def kept(caller: str, run_id: str, size: int) -> bool:
            context = copy_context()
            context.run(CALLER.set, caller)
            return context.run(results.keep, run_id, b'"' + b"x" * size + b'"')

        def kept_one(caller: str, run_id: str) -> Any:
            async def main() -> Any:
                CALLER.set(caller)
                return await results.call("results.read", {"id": run_id}, CallContext())

            return asyncio.run(main())

        assert kept("calm", "mine", 1000)
        for number in range(75):
            assert kept("greedy", f"run {number}", 1 << 20)
        assert kept_one("calm", "mine") == "x" * 1000
        assert kept_one("greedy", "run 74")
        with pytest.raises(ToolError, match="is kept"):
            kept_one("greedy", "run 0")
        assert kept("calm", "more", 10 << 20), "its part is still there"
        assert not kept("greedy", "too much", 60 << 20), "what can't be kept is said to be not kept"

    @attack("http", "sessions of one client in the place of all")
    def test_each_client_has_sessions(self, served: Served) -> None:
        async def fill(client: Client[Any]) -> None:
            for number in range(20):
                assert (await say(client, "code_execute", code="x = 1", session=f"s{number}"))[0] is False

        talk(served, fill, token=ALICE)
        assert ask(served, "code_execute", token=BOB, code="y = 2", session="mine")[0] is False
        talk(served, fill, token=ALICE)
        assert ask(served, "code_execute", token=BOB, code="y", session="mine")[1]["result"] == 2
