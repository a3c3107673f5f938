"""The server over HTTP: requests that are two, hosts by other names, and clients who want what is another's."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastmcp import Client
from mcp import MCPError

from go_ent.engine import Engine
from go_ent.engine.core.models import TaskResult
from tests.security.corpus import attack
from tests.security.wire import (
    ALICE,
    BOB,
    CAROL,
    INITIALIZE,
    LIST,
    MOST,
    TOOL,
    connect,
    exchange,
    guarded,
    read,
    request,
)
from tests.support.serving import ERAS, Mode, Served, ask, say, talk


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with guarded(tmp_path_factory.mktemp("more") / "project") as server:
        yield server


def answers(data: bytes) -> list[int]:
    """The statuses of all answers in what came."""
    return [int(one) for one in re.findall(rb"(?m)^HTTP/1\.1 ([0-9]{3}) ", data)]


def post(*headers: str, body: bytes = b"", path: str = "/mcp", token: str = ALICE) -> bytes:
    head = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        *headers,
    ]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body


HIDDEN = (
    f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ALICE}\r\nConnection: close\r\n\r\n".encode()
)


class TestRequestsThatAreTwo:
    @attack("http", "several lengths that differ")
    @pytest.mark.parametrize("second", ["Content-Length: 5", "content-length: 0", "Content-Length: 4, 5"])
    def test_lengths_that_differ_are_refused(self, served: Served, second: str) -> None:
        data = exchange(served, post("Content-Length: 4", second, body=b"xxxx" + HIDDEN)).data
        assert answers(data) == [400]
        assert b"go_ent_" not in data

    @attack("http", "a length that is no plain number")
    @pytest.mark.parametrize("length", ["-1", "+4", "0x4", "4_0", "1e1", " ", "\u00b2", "9" * 5000])
    def test_a_length_is_digits(self, served: Served, length: str) -> None:
        data = exchange(served, post(f"Content-Length: {length}", body=HIDDEN)).data
        assert answers(data) in ([400], [413])
        assert b"go_ent_" not in data

    @attack("http", "an encoding that only some servers take for chunks")
    @pytest.mark.parametrize(
        "coding", ["xchunked", "chunked, identity", "identity, chunked", "chunked;x", "\x0bchunked", "gzip, chunked"]
    )
    def test_an_encoding_is_chunked_or_refused(self, served: Served, coding: str) -> None:
        data = exchange(served, post(f"Transfer-Encoding: {coding}", body=b"0\r\n\r\n" + HIDDEN)).data
        assert answers(data) in ([400], [501])
        assert b"go_ent_" not in data

    @attack("http", "chunks whose sizes overflow, or are none")
    @pytest.mark.parametrize("size", [b"f" * 30, b"-1", b"0x5", b"5 ;" + b"x" * 70_000, b""])
    def test_a_chunk_has_a_size(self, served: Served, size: bytes) -> None:
        data = exchange(served, post("Transfer-Encoding: chunked", body=size + b"\r\nhello\r\n0\r\n\r\n" + HIDDEN)).data
        assert answers(data) in ([400], [413])
        assert b"go_ent_" not in data

    @attack("http", "headers over two lines, or with a NUL")
    @pytest.mark.parametrize(
        "header", ["X: a\r\n Authorization: Bearer x", "X\0: a", "X : a", "X: a\0b", ": a", "Ho\tst: x"]
    )
    def test_a_header_is_a_line(self, served: Served, header: str) -> None:
        sent = f"GET /metrics HTTP/1.1\r\nHost: localhost\r\n{header}\r\nConnection: close\r\n\r\n".encode("latin-1")
        data = exchange(served, sent).data
        assert answers(data) in ([400], [401])
        assert b"go_ent_" not in data

    @attack("http", "a request behind one that was refused")
    def test_after_a_refusal_nothing_more_is_read(self, served: Served) -> None:
        data = exchange(served, post(f"Content-Length: {MOST + 1}", body=b"x" * 100 + HIDDEN)).data
        assert answers(data) == [413]
        data = exchange(served, post("Content-Length: 0", token="x" * 30) + HIDDEN).data
        assert answers(data) == [401]
        assert b"go_ent_" not in data

    @attack("http", "a request without a version, or with an old one")
    def test_an_old_request_gets_no_more_than_a_new_one(self, served: Served) -> None:
        assert b"go_ent_" not in exchange(served, b"GET /metrics\r\n\r\n").data
        assert exchange(served, b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").status == 401
        assert answers(exchange(served, b"GET /metrics HTTP/9.9\r\nHost: localhost\r\n\r\n").data) in ([], [400], [401])


class TestBodies:
    @attack("http", "a compressed body that unfolds")
    def test_a_compressed_body_is_not_unfolded(self, served: Served) -> None:
        bomb = gzip.compress(json.dumps(INITIALIZE).encode() + b" " * (50 << 20))
        assert len(bomb) < MOST
        answer = request(served, token=ALICE, body=bomb, headers={"Content-Encoding": "gzip"})
        assert answer.status == 400
        assert request(served, token=ALICE, body=gzip.compress(json.dumps(INITIALIZE).encode())).status == 400

    @attack("http", "a body that asks whether it may come")
    def test_who_asks_first_is_told_no_before_sending(self, served: Served) -> None:
        with connect(served) as connection:
            connection.sendall(post("Expect: 100-continue", f"Content-Length: {1 << 30}"))
            assert answers(read(connection)) == [413]
        with connect(served) as connection:
            connection.sendall(post("Expect: 100-continue", "Content-Length: 10", token="x" * 30))
            assert answers(read(connection)) == [401]

    @attack("http", "what is no JSON-RPC")
    @pytest.mark.parametrize(
        "body",
        [b"", b"null", b"5", b'"x"', b"[]", b"[1]", b"{}", b'{"jsonrpc":"1.0","id":1,"method":"x"}',
         b'{"jsonrpc":"2.0","id":{},"method":"x"}',
         b'{"jsonrpc":"2.0","id":1,"method":5}', b"\xff\xfe{}", b"\x00", b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', b"{" * 60_000],  # noqa: E501
    )  # fmt: skip
    def test_it_is_refused_with_a_word(self, served: Served, body: bytes) -> None:
        answer = request(served, token=ALICE, body=body)
        assert answer.status == 400
        assert "Traceback" not in served.said()

    @attack("http", "many requests in one")
    def test_a_batch_is_not_carried_out(self, served: Served) -> None:
        call = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "code_execute", "arguments": {"code": "6 * 7"}},
        }
        answer = request(served, token=ALICE, body=[INITIALIZE, *[{**call, "id": n} for n in range(2, 50)]])
        assert answer.status == 400
        assert b"42" not in answer.body

    @attack("http", "a method that is not offered")
    @pytest.mark.parametrize(
        "method",
        [
            "sampling/createMessage",
            "elicitation/create",
            "roots/list",
            "logging/setLevel",
            "tools/../x",
            "rpc.discover",
        ],
    )
    def test_only_what_is_offered_is_done(self, served: Served, method: str) -> None:
        opened = request(served, body=INITIALIZE, token=CAROL)
        session = {"Mcp-Session-Id": opened.header("mcp-session-id"), "Mcp-Protocol-Version": "2025-06-18"}
        said = request(
            served, token=CAROL, body={"jsonrpc": "2.0", "id": 3, "method": method, "params": {}}, headers=session
        )
        assert b'"error"' in said.body
        assert b'"result"' not in said.body
        request(served, "DELETE", token=CAROL, headers=session)


class TestNames:
    @attack("http", "another spelling of this machine's address")
    @pytest.mark.parametrize(
        "host",
        ["localhost.", "2130706433", "0177.0.0.1", "0x7f.1", "127.1", "[::1%25lo]", "127.0.0.1:99999999", "localhost:80:80",  # noqa: E501
         "user@localhost",
         "localhost#x", "localhost/x", "127.0.0.1 evil", "local\u00adhost", "[fe80::1]", "0.0.0.0"],
    )  # fmt: skip
    def test_a_host_has_one_spelling(self, served: Served, host: str) -> None:
        assert request(served, "GET", "/healthz", host=host).status in (400, 421)

    @attack("http", "a host in capitals, and with another port")
    def test_what_is_the_same_host_is_served_and_needs_its_token(self, served: Served) -> None:
        for host in ("LOCALHOST", "localhost:1", "127.0.0.1"):
            assert request(served, "GET", "/healthz", host=host).status == 200
            assert request(served, "GET", "/metrics", host=host).status == 401

    @attack("http", "headers that tell of another host")
    def test_what_a_proxy_would_say_is_not_believed(self, served: Served) -> None:
        told = {
            "X-Forwarded-Host": "localhost",
            "X-Forwarded-For": "127.0.0.1",
            "Forwarded": "host=localhost",
            "X-Original-Host": "localhost",
        }
        assert request(served, "GET", "/healthz", host="evil.example", headers=told).status == 421

    @attack("http", "a page's question before its request")
    def test_no_page_is_told_that_it_may(self, served: Served) -> None:
        asked = {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization",
            "Access-Control-Request-Private-Network": "true",
        }
        for headers, status in (
            ({**asked, "Origin": "https://evil.example"}, 403),
            ({**asked, "Origin": "https://app.example"}, 405),
            (asked, 405),
        ):
            answer = request(served, "OPTIONS", headers=headers)
            assert answer.status == status
            assert b"access-control" not in answer.head.lower()

    @attack("http", "what those without a token are told")
    def test_who_has_no_token_learns_nothing(self, served: Served) -> None:
        health = request(served, "GET", "/healthz")
        assert set(json.loads(health.body)) == {"ok", "version"}
        told = b"".join(
            request(served, method, path).data
            for method, path in (("GET", "/mcp"), ("GET", "/metrics"), ("POST", "/x"), ("GET", "/"))
        )
        for word in (str(served.project), "alice", "bob", "secret", "python", "uvicorn"):
            assert word.encode() not in (told + health.data).lower(), word

    @attack("http", "a session's id that is long, forged or a header of its own")
    @pytest.mark.parametrize("session", ["x", "../" * 100, "x" * 10_000, "0" * 32, "\xff", "a b", '{"a":1}'])
    def test_a_forged_session_is_none(self, served: Served, session: str) -> None:
        for method in ("POST", "GET", "DELETE"):
            answer = request(
                served, method, token=BOB, body=LIST if method == "POST" else None, headers={"Mcp-Session-Id": session}
            )
            assert answer.status in (400, 404)

    @attack("http", "a stream that is taken up where another's ended")
    def test_a_stream_is_not_replayed_to_another(self, served: Served) -> None:
        opened = request(served, body=INITIALIZE, token=ALICE).header("mcp-session-id")
        head = {"Mcp-Session-Id": opened, "Last-Event-ID": "1", "Mcp-Protocol-Version": "2025-06-18"}
        assert request(served, "GET", token=BOB, headers=head).status == 404
        assert request(served, "DELETE", token=ALICE, headers=head).status == 200

    @attack("http", "a version of the protocol that there is not")
    @pytest.mark.parametrize("version", ["1999-01-01", "x" * 5000, "2026-07-28\x0b", "../"])
    def test_another_version_is_refused(self, served: Served, version: str) -> None:
        answer = request(
            served, token=ALICE, body={**LIST, "method": "tools/list"}, headers={"Mcp-Protocol-Version": version}
        )
        assert answer.status == 400
        assert "Traceback" not in served.said()


class TestResources:
    @attack("http", "a resource's address that climbs, or is a file")
    @pytest.mark.parametrize(
        "uri",
        ["file:///etc/passwd", "go-ent://executions/../../config.toml/log", "go-ent://executions/%2e%2e/log", "go-ent://executions/*/log",
         "go-ent://executions/index.db/log", "go-ent://stubs/..%2f..", "go-ent://stubs/secret", "http://127.0.0.1/metrics"],
    )  # fmt: skip
    def test_a_resource_is_one_of_ours(self, served: Served, uri: str) -> None:
        async def main(client: Client[Any]) -> str:
            try:
                return str(await client.read_resource(uri))
            except (MCPError, ValueError) as error:
                return str(error)

        told = talk(served, main, token=BOB)
        for word in ("root:", "token_env", "42", "go_ent_"):
            assert word not in told

    @attack("http", "the log of another client's execution")
    def test_a_log_is_its_owners(self, served: Served) -> None:
        _, run = ask(served, "code_execute", token=ALICE, code="await tools.secret(n=1)")
        uri = f"go-ent://executions/{run['execution_id']}/log"

        async def main(client: Client[Any]) -> str:
            listed = str(await client.read_resource("go-ent://executions"))
            try:
                return listed + str(await client.read_resource(uri))
            except MCPError as error:
                return listed + str(error)

        mine, theirs = (talk(served, main, token=token) for token in (ALICE, BOB))
        assert "secret" in mine
        assert "secret" not in theirs
        assert "there is no execution" in theirs

    @attack("http", "a named session of another client's")
    def test_two_sessions_of_one_name_are_two(self, served: Served) -> None:
        assert ask(served, "code_execute", token=ALICE, code="x = 'alice was here'", session="shared")[0] is False
        failed, said = ask(served, "code_execute", token=BOB, code="x", session="shared")
        assert failed
        assert "alice was here" not in str(said)
        assert ask(served, "code_execute", token=ALICE, code="x", session="shared")[1]["result"] == "alice was here"

    @attack("http", "the end of another client's call")
    async def test_a_call_is_cancelled_by_its_own_client_alone(self, served: Served) -> None:
        from fastmcp.client.transports import StreamableHttpTransport

        async with (
            Client(StreamableHttpTransport(served.url, auth=ALICE), mode="legacy") as alice,
            Client(StreamableHttpTransport(served.url, auth=BOB), mode="legacy") as bob,
        ):
            call = asyncio.create_task(say(alice, "code_execute", code="import time\ntime.sleep(0.7)\n'done'"))
            await asyncio.sleep(0)
            for number in range(20):
                await bob.cancel(number, "mine")
            failed, said = await call
        assert (failed, said["result"]) == (False, "done")

    @attack("http", "names and words of others in the figures")
    def test_figures_tell_no_names(self, served: Served) -> None:
        ask(served, "code_execute", token=ALICE, code='raise ValueError("a\\"} 1\\n# HELP x")')
        figures = request(served, "GET", "/metrics", token=CAROL).body.decode()
        assert not [
            word
            for word in ("alice", "bob", "secret", "guarded", "ValueError", "HELP x\n")
            if word in figures.replace("# HELP ", "")
        ]
        sample = re.compile(r'(?:go_ent|process)_\w+(?:\{[a-z]+="[^"\\]*"(?:,[a-z]+="[^"\\]*")*\})? [0-9.e+-]+')
        assert [
            line for line in figures.split("\n") if line and not line.startswith("#") and not sample.fullmatch(line)
        ] == []


class TestMoreThanWasGiven:
    """Bob may call `plain`, compose and use the engine. Nothing of it gets him `secret`, or what is Alice's."""

    @attack("grants", "a composed tool that calls what its caller may not")
    def test_by_a_tool_of_his_own(self, served: Served) -> None:
        wrapper = TOOL.format("wrapper", "await tools.secret(n=n)")
        ask(served, "tool_compose", token=BOB, source=wrapper)
        ask(served, "tool_compose", token=ALICE, source=wrapper)
        for name, arguments in (("tool_run", {"name": "wrapper", "inputs": {"n": 1}}), ("wrapper", {"n": 1})):
            with contextlib.suppress(Exception):
                failed, said = ask(served, name, token=BOB, **arguments)
                assert failed
                assert "42" not in str(said)
        failed, said = ask(served, "code_execute", token=BOB, code="await tools.wrapper(n=1)")
        assert failed
        assert "granted" in said["error"]

    @attack("grants", "a tool changed to call what its caller may not")
    def test_by_changing_a_tool_that_he_may_call(self, served: Served) -> None:
        """`plain` calls `secret` from now on: with Bob's grants, all the same."""
        ask(served, "tool_compose", token=BOB, source=TOOL.format("plain", "await tools.secret(n=n)"))
        failed, said = ask(served, "tool_run", token=BOB, name="plain", inputs={"n": 1})
        assert failed or said["result"] != 42
        assert ask(served, "tool_compose", token=ALICE, source=TOOL.format("plain", "n"))[0] is False

    @attack("http", "what is not granted, by way of the engine")
    @pytest.mark.parametrize(
        "plan", [[{"id": "a", "code": "await tools.secret(n=1)"}], [{"id": "a", "tool": "secret", "inputs": {"n": 1}}]]
    )
    def test_by_way_of_the_engine(self, served: Served, plan: list[dict[str, Any]]) -> None:
        failed, said = ask(served, "engine_execute", token=BOB, plan=plan)
        assert failed
        assert "42" not in str(said)

    @attack("http", "a program named in a plan")
    def test_by_naming_a_program(self, served: Served) -> None:
        failed, said = ask(served, "engine_execute", token=BOB, plan=[{"id": "a", "command": ["id"]}])
        assert failed
        assert "uid=" not in str(said)

    @attack("http", "tools that are not granted, looked for")
    def test_by_looking_for_it(self, served: Served) -> None:
        assert "secret" not in str(ask(served, "tool_search", token=BOB, words="")[1])
        assert ask(served, "tool_schema", token=BOB, names=["secret"])[0]
        assert ask(served, "tool_show", token=BOB, name="secret")[0]

    @attack("http", "what is wrong with a server of others")
    def test_what_is_wrong_with_a_server_is_told_to_who_may_reach_it(self, served: Served) -> None:
        def told(token: str) -> list[bool]:
            stubs = talk(served, lambda client: client.read_resource("go-ent://stubs"), token=token)
            return [
                "/no/such/program" in str(one)
                for one in (ask(served, "tool_search", token=token, words="plain")[1], stubs)
            ]

        assert told(ALICE) == [True, True]
        assert told(BOB) == [False, False]

    @attack("http", "another client's execution")
    @pytest.mark.parametrize("mode", ERAS)
    def test_by_way_of_an_execution_of_alice_s(self, served: Served, mode: Mode) -> None:
        """Paused, with a call that needs approval: seen, approved, resumed, stopped, summed up by nobody else."""
        _, run = ask(
            served, "code_execute", token=ALICE, mode=mode, code="await tools.guarded(n=await tools.secret(n=1))"
        )
        assert run["status"] == "paused"
        theirs = run["execution_id"]

        async def try_all(client: Client[Any]) -> list[str]:
            told = []
            for name, more in (
                ("engine_status", {}),
                ("engine_approve", {}),
                ("engine_resume", {}),
                ("engine_interrupt", {"cancel": True}),
            ):
                for given in (theirs, theirs[:18]):
                    failed, said = await say(client, name, execution_id=given, **more)
                    assert failed, f"{name}: {said}"
                    told.append(str(said).replace(given, "ID"))
            told.append(str((await say(client, "engine_status"))[1]))
            return told

        told = talk(served, try_all, token=BOB, mode=mode)
        assert theirs not in str(told)
        never = str(
            ask(served, "engine_status", token=BOB, mode=mode, execution_id="0199aaaa-bbbb-7ccc-8ddd-000000000000")[1]
        )
        assert told[0] == never.replace("0199aaaa-bbbb-7ccc-8ddd-000000000000", "ID"), "as if there was none"
        assert ask(served, "engine_status", token=ALICE, mode=mode, execution_id=theirs)[1]["status"] == "paused"

    @attack("grants", "grants that were taken back, by a resume")
    def test_by_resuming_with_grants_that_were_taken_back(self, served: Served) -> None:
        """Begun by a client who might do more then: what goes on has the grants of now."""
        _, run = ask(served, "code_execute", token=ALICE, code="await tools.guarded(n=1)\nawait tools.secret(n=1)")
        assert ask(served, "engine_approve", token=ALICE, execution_id=run["execution_id"])[0] is False
        less = served.project / ".go-ent" / "config.toml"
        before = less.read_text()
        less.write_text(before.replace('allow = ["*"]', 'allow = ["guarded"]'))
        try:
            engine = Engine(served.project, trusted=True)
        finally:
            less.write_text(before)

        async def resume() -> TaskResult:
            async with engine:
                return await engine.resume(run["execution_id"])

        result = asyncio.run(resume())
        assert "granted" in (result.error or "")
        assert "42" not in result.output

    @attack("http", "a client with no grants at all")
    def test_a_client_that_was_given_nothing_computes_and_no_more(self, served: Served) -> None:
        assert ask(served, "code_execute", token=CAROL, code="2 ** 10")[1]["result"] == 1024
        for tool in ("plain", "secret"):
            assert ask(served, "code_execute", token=CAROL, code=f"await tools.{tool}(n=1)")[0]
        assert not {"plain", "secret"} & {
            one.name for one in talk(served, lambda client: client.list_tools(), token=CAROL)
        }
