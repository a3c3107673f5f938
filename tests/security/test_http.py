"""The server over HTTP against those who have no business there, and against clients who want more than they were
given.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from go_ent.composer.errors import ConfigError
from go_ent.engine import Engine
from go_ent.engine.core.config import ClientConfig, ServeConfig
from go_ent.engine.server.calls.callers import LOCAL, NOBODY, REMOTE, current
from go_ent.engine.server.http.connections import ROOM
from go_ent.engine.server.http.peers import is_own
from go_ent.engine.server.http.serve import RESERVE, connections, listen, parse_address, read_rules
from go_ent.engine.server.http.tokens import read_tokens
from go_ent.engine.setup.trust_list import wants
from tests.security.corpus import attack
from tests.security.wire import (
    ALICE,
    BOB,
    CAROL,
    CLIENTS,
    CONNECTIONS,
    INITIALIZE,
    LIST,
    META,
    MODERN,
    MORE,
    MOST,
    SESSIONS,
    Raw,
    connect,
    exchange,
    guarded,
    read,
    request,
)
from tests.support.serving import Served, ask, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with guarded(tmp_path_factory.mktemp("gate") / "project") as server:
        yield server


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One without tokens, on loopback."""
    with serving(tmp_path_factory.mktemp("open") / "project", trusted=False) as server:
        yield server


class TestTokens:
    @attack("http", "no token")
    @pytest.mark.parametrize("path", ["/mcp", "/metrics"])
    def test_without_one_nobody_comes_in(self, served: Served, path: str) -> None:
        answer = request(served, "GET", path)
        assert answer.status == 401
        assert answer.header("www-authenticate") == 'Bearer realm="go-ent"'

    @attack("http", "a token that is nearly right, or of another scheme")
    @pytest.mark.parametrize(
        "given",
        [
            "Bearer",
            "Bearer ",
            f"Bearer {ALICE[:-1]}",
            f"Bearer {ALICE}x",
            f"Bearer {ALICE.upper()}",
            f"Bearer  {ALICE}",
            f"Bearer {ALICE}\tx",
            f"Bearer {ALICE},{BOB}",
            f"Basic {ALICE}",
            ALICE,
            f"Bearer {'x' * 5000}",
            "Bearer \xe9\xff" + ALICE,
        ],
    )
    def test_what_is_nearly_one_is_none(self, served: Served, given: str) -> None:
        assert request(served, body=INITIALIZE, headers={"Authorization": given}).status == 401

    @attack("http", "two tokens in one request")
    def test_two_of_them_are_none(self, served: Served) -> None:
        assert request(served, body=INITIALIZE, token=ALICE, headers={"authorization": f"Bearer {BOB}"}).status == 401

    @attack("http", "a token in the address")
    def test_in_the_address_it_is_none(self, served: Served) -> None:
        assert request(served, path=f"/mcp?token={ALICE}&access_token={ALICE}", body=INITIALIZE).status == 401

    def test_one_lets_in(self, served: Served) -> None:
        assert request(served, body=INITIALIZE, token=ALICE).status == 200
        assert request(served, "GET", "/metrics", token=CAROL).status == 200

    @attack("http", "another client's session")
    def test_a_session_is_of_use_only_to_who_opened_it(self, served: Served) -> None:
        opened = request(served, body=INITIALIZE, token=ALICE).header("mcp-session-id")
        assert opened
        session = {"Mcp-Session-Id": opened, "Mcp-Protocol-Version": "2025-06-18"}
        for method in ("POST", "GET", "DELETE"):
            answer = request(served, method, token=BOB, body=LIST if method == "POST" else None, headers=session)
            assert answer.status == 404
            assert b"Session not found" in answer.body
        assert request(served, token=ALICE, body=LIST, headers=session).status == 200, "it is still there"
        assert request(served, "DELETE", token=ALICE, headers=session).status == 200

    @attack("http", "rights left over on a connection")
    def test_a_connection_carries_nobody_s_rights_over_to_the_next_request(self, served: Served) -> None:
        """One connection, two clients by turns: each finds listed what is theirs."""
        with contextlib.closing(http.client.HTTPConnection(*served.address, timeout=20)) as connection:
            sessions = {}
            for token in (ALICE, CAROL, ALICE, CAROL):
                head = {
                    "Authorization": f"Bearer {token}",
                    "Content-Type": "application/json",
                    "Accept": "application/json, text/event-stream",
                }
                if token not in sessions:
                    connection.request("POST", "/mcp", json.dumps(INITIALIZE), head)
                    with connection.getresponse() as answer:
                        answer.read()
                        sessions[token] = answer.headers["Mcp-Session-Id"]
                session = {"Mcp-Session-Id": sessions[token], "Mcp-Protocol-Version": "2025-06-18"}
                connection.request("POST", "/mcp", json.dumps(LIST), {**head, **session})
                with connection.getresponse() as answer:
                    assert (b'"secret"' in answer.read()) == (token == ALICE)
            for token, opened in sessions.items():
                request(served, "DELETE", token=token, headers={"Mcp-Session-Id": opened})

    @attack("secrets", "a token, on its way to a log, a figure or an answer")
    def test_it_is_in_no_log_no_figure_and_no_answer(self, served: Served) -> None:
        told = [
            request(served, body=INITIALIZE, token=ALICE[:-1] + "?").data,
            request(served, path="/nothing", token=ALICE).data,
        ]
        told += [request(served, body=b"{", token=ALICE).data, request(served, "GET", "/metrics", token=ALICE).data]
        leak = (
            "import os\ntry:\n    raise KeyError(dict(os.environ))\nexcept KeyError as error:\n    print(error)\n1 / 0"
        )
        told.append(json.dumps(ask(served, "code_execute", token=ALICE, code=leak)).encode())
        told.append(served.said().encode())
        for secret in (ALICE, BOB, CAROL):
            assert all(secret.encode() not in one for one in told)


class TestPages:
    """A browser is led by whoever wrote the page: it must not lead in here. The server without tokens is the one at
    stake.
    """

    @attack("http", "a host's name bent to this machine")
    @pytest.mark.parametrize(
        "host",
        [
            "evil.example",
            "evil.example:80",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "127.0.0.1@evil.example",
            "",
            "[::1",
        ],
    )
    @pytest.mark.parametrize("path", ["/mcp", "/healthz", "/metrics"])
    def test_a_name_that_was_bent_to_this_machine_is_refused(self, open_server: Served, host: str, path: str) -> None:
        assert request(open_server, "GET", path, host=host).status in (400, 421)

    @attack("http", "no host, or two of them")
    def test_so_is_none_and_so_are_two(self, open_server: Served) -> None:
        assert exchange(open_server, b"GET /metrics HTTP/1.0\r\n\r\n").status == 421
        assert request(open_server, "GET", "/metrics", headers={"host": "evil.example"}).status == 400

    @attack("http", "a page of another origin, with and without asking first")
    @pytest.mark.parametrize(
        "origin",
        [
            "https://evil.example",
            "null",
            "http://localhost:1",
            "http://127.0.0.1",
            "http://127.0.0.1.evil.example",
            "file://",
            "",
        ],
    )
    def test_a_page_of_another_origin_is_refused(self, open_server: Served, origin: str) -> None:
        assert request(open_server, body=INITIALIZE, headers={"Origin": origin}).status == 403
        assert (
            request(open_server, "OPTIONS", headers={"Origin": origin, "Access-Control-Request-Method": "POST"}).status
            == 403
        )

    def test_its_own_and_those_of_the_configuration_are_not(self, open_server: Served, served: Served) -> None:
        own = "http://{}:{}".format(*open_server.address)
        assert request(open_server, body=INITIALIZE, headers={"Origin": own}).status == 200
        assert request(served, body=INITIALIZE, token=ALICE, headers={"Origin": "https://app.example"}).status == 200

    @attack("http", "an answer that a page may read")
    def test_no_answer_lets_a_page_read_it(self, open_server: Served) -> None:
        assert b"access-control" not in request(open_server, "GET", "/healthz").head.lower()

    @attack("http", "a form that a page sends unasked")
    def test_what_is_no_json_is_refused(self, open_server: Served) -> None:
        """A form of a page may send text without being asked, from a browser that tells no origin."""
        sent = json.dumps(INITIALIZE).encode()
        head = (
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: "
            f"text/plain\r\nContent-Length: {len(sent)}\r\n"
        )
        accepts = "Accept: application/json, text/event-stream\r\n\r\n"
        assert exchange(open_server, (head + accepts).encode() + sent).status in (400, 415)


class TestThisMachine:
    def test_without_tokens_it_is_for_this_user_s_programs(self, open_server: Served) -> None:
        assert request(open_server, body=INITIALIZE).status == 200
        assert ask(open_server, "code_execute", code="6 * 7")[1]["result"] == 42

    @pytest.mark.skipif(os.getuid() != 0, reason="only root can pass for somebody else")
    def test_another_user_s_are_refused(self, open_server: Served) -> None:
        os.seteuid(65534)
        try:
            connection = connect(open_server)
        finally:
            os.seteuid(0)
        with connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = Raw(read(connection))
        assert answer.status == 403
        assert b"--token-env" in answer.body

    @attack("http", "a connection whose owner is not known")
    def test_a_connection_that_the_kernel_does_not_know_is_nobody_s(self) -> None:
        assert not is_own(("127.0.0.1", 1), ("127.0.0.1", 2))
        assert not is_own(("::1", 1), ("::1", 2))

    @attack("http", "an open address without tokens")
    def test_others_are_not_reached_without_a_token(self, tmp_path: Path) -> None:
        engine = Engine(tmp_path, trusted=True)
        with pytest.raises(
            ConfigError, match=r"can be reached from other machines.*--token-env VARIABLE, or name clients"
        ):
            read_rules(ServeConfig(), parse_address("0.0.0.0:0"), engine, "1", {}, None)
        assert (
            read_rules(ServeConfig(), parse_address("0.0.0.0:0"), engine, "1", {"T": ALICE}, "T").tokens.whose(ALICE)
            == REMOTE
        )

    @attack("http", "clients named by a folder that nobody trusts")
    def test_a_folder_that_nobody_trusts_lets_nobody_in(self, tmp_path: Path) -> None:
        """Whoever wrote it knows the token of the client that it names, and may name any variable."""
        config = ServeConfig(
            clients={"evil": ClientConfig(token_env="HOME_", allow=("*",))},
            hosts=("evil.example",),
            origins=("https://evil.example",),
        )
        engine = Engine(tmp_path, trusted=False)
        with pytest.raises(ConfigError, match=r"nobody has trusted.*go-ent trust"):
            read_rules(config, parse_address("127.0.0.1:0"), engine, "1", {"HOME_": BOB}, None)
        rules = read_rules(config, parse_address("127.0.0.1:0"), engine, "1", {"HOME_": BOB, "T": ALICE}, "T")
        assert rules.tokens.whose(BOB) is None
        assert "evil.example" not in rules.hosts
        assert not rules.origins

    @attack("http", "names and pages of a configuration without tokens")
    def test_without_tokens_no_name_and_no_page_is_let_in(self, tmp_path: Path) -> None:
        """Whoever owns the name could have it lead to this machine, and a browser of this user's with it."""
        config, address = (
            ServeConfig(hosts=("shop.example",), origins=("https://shop.example",)),
            parse_address("127.0.0.1:0"),
        )
        engine = Engine(tmp_path, trusted=True)
        rules = read_rules(config, address, engine, "1", {}, None)
        assert "shop.example" not in rules.hosts
        assert not rules.origins
        rules = read_rules(config, address, engine, "1", {"T": ALICE}, "T")
        assert "shop.example" in rules.hosts
        assert rules.origins == {"https://shop.example"}

    def test_whoever_trusts_a_folder_sees_who_is_let_in_and_what_agents_are_told(self, tmp_path: Path) -> None:
        config = (
            '[serve]\nhosts = ["shop.example"]\norigins = ["https://shop.example"]\n'
            '[serve.clients.a]\ntoken_env = "HOME_"\nallow = ["x.*"]\n[serve.clients.b]\ntoken_file = '
            '"b.token"\nengine = true\n'
            '[roles.boss]\nprompt = "Obey me."\n[roles.plain]\nmodel = "m"\n'
            '[context]\nsummarizers = ["cli:evil", "deterministic"]\n'
        )
        (tmp_path / ".go-ent" / "skills" / "style").mkdir(parents=True)
        (tmp_path / ".go-ent" / "skills" / "style" / "SKILL.md").write_text("Do as I say.")
        assert wants(tmp_path) == ["skill .go-ent/skills/style/SKILL.md"]
        (tmp_path / ".go-ent" / "config.toml").write_text(config)
        assert wants(tmp_path) == [
            "client a over HTTP: x.*; its token is in $HOME_",
            "client b over HTTP: no tools; runs agents; its token is in b.token",
            "served over HTTP as shop.example",
            "pages of https://shop.example may call over HTTP",
            "role boss tells agents: Obey me.",
            "summarizer cli:evil",
            "skill .go-ent/skills/style/SKILL.md",
        ]

    @attack("http", "a token's file that others can read")
    def test_a_file_of_root_s_that_anybody_can_read_holds_no_token(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "getuid", lambda: 65534)
        with pytest.raises(ConfigError, match="open to others"):
            read_tokens({"a": ClientConfig(token_file="/etc/passwd")}, tmp_path, {})

    def test_an_address_that_is_taken_is_said(self, served: Served) -> None:
        with pytest.raises(ConfigError, match="can't be listened on: Address already in use"):
            listen(parse_address("{}:{}".format(*served.address)))

    @attack("http", "a request that came around the gate")
    def test_what_is_past_the_gate_by_mistake_may_nothing(self) -> None:
        assert (NOBODY.allow, NOBODY.may_compose, NOBODY.may_run_agents) == ((), False, False)
        assert NOBODY.name
        assert current() == LOCAL, "in memory and over stdio it is the project's own user"


class TestSizesAndTimes:
    @attack("http", "a body that says it is too large")
    def test_a_body_that_says_it_is_too_large_is_not_read(self, served: Served) -> None:
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ALICE}\r\nContent-Length: "
            f"{1 << 40}\r\n\r\n"
        )
        assert exchange(served, head.encode()).status == 413

    @attack("http", "a body in pieces, without an end")
    def test_nor_is_one_that_does_not_say_it(self, served: Served) -> None:
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ALICE}\r\nTransfer-Encoding: "
            "chunked\r\n\r\n"
        )
        chunk = b"1000\r\n" + b"x" * 0x1000 + b"\r\n"
        assert exchange(served, head.encode() + chunk * (MOST // 0x1000 + 4)).status == 413

    def test_one_of_just_that_size_is(self, served: Served) -> None:
        body = json.dumps(INITIALIZE).encode()
        assert request(served, token=ALICE, body=body + b" " * (MOST - len(body))).status == 200
        assert request(served, token=ALICE, body=body + b" " * (MOST - len(body) + 1)).status == 413

    @attack("http", "a long body without a token")
    def test_who_has_no_token_is_not_heard_out(self, served: Served) -> None:
        head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert exchange(served, head + (b"1000\r\n" + b"x" * 0x1000 + b"\r\n") * 200).status == 401

    @attack("http", "a body that trickles")
    def test_a_body_that_trickles_is_given_up(self, served: Served) -> None:
        with connect(served) as connection:
            head = (
                f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ALICE}\r\nContent-Length: "
                "1000\r\n\r\n"
            )
            connection.sendall(head.encode())
            answer = Raw(trickle(connection, b"x"))
        assert answer.status == 408
        assert answer.header("connection") == "close"

    @attack("http", "a head that trickles, or never comes")
    @pytest.mark.parametrize(
        "begun", [b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-"], ids=["nothing", "a head"]
    )
    def test_so_is_a_head(self, served: Served, begun: bytes) -> None:
        with connect(served) as connection:
            connection.sendall(begun)
            assert trickle(connection, b"a" if begun else b"") == b""

    @attack("http", "a second head that trickles")
    def test_so_is_the_next_head_on_the_same_connection(self, served: Served) -> None:
        with connect(served) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
            connection.sendall(b"GET /healthz HTTP/1.1\r\nX-")
            assert b"HTTP/1.1" not in trickle(connection, b"a")

    @attack("http", "a flood of headers")
    def test_a_flood_of_headers_is_refused(self, served: Served) -> None:
        many = "".join(f"X-{number}: {'x' * 100}\r\n" for number in range(2000))
        assert exchange(served, f"GET /healthz HTTP/1.1\r\nHost: localhost\r\n{many}\r\n".encode()).status in (
            0,
            400,
            431,
        )
        assert exchange(served, b"GET /" + b"a" * (1 << 20)).status in (0, 400, 414, 431)
        assert request(served, "GET", "/healthz").status == 200, "and the next one is served"

    @attack("http", "deep JSON")
    def test_deep_json_is_an_error_and_no_crash(self, served: Served) -> None:
        deep = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":' + b"[" * 30_000 + b"]" * 30_000 + b"}"
        assert request(served, token=ALICE, body=deep).status == 400
        assert request(served, token=ALICE, body=deep, headers={"Mcp-Protocol-Version": MODERN}).status == 400
        assert request(served, "GET", "/healthz").status == 200

    @attack("http", "connections without end")
    def test_connections_are_bounded_and_the_next_one_is_served(self, served: Served) -> None:
        """Who says nothing makes way for who comes next: there are never more than so many, and never one too few."""
        before = files_of(served)
        with contextlib.ExitStack() as stack:
            for number in range(4 * (CONNECTIONS + ROOM)):
                stack.enter_context(connect(served))
                if number % 10 == 0:
                    assert request(served, "GET", "/healthz").status == 200
                    assert files_of(served) <= before + CONNECTIONS + ROOM + 10
            assert request(served, token=ALICE, body=INITIALIZE).status == 200
        assert "Traceback" not in served.said()

    @attack("http", "connections that take all open files")
    def test_connections_leave_files_for_what_runs(self) -> None:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (RESERVE + ROOM + 312, before[1]))
        try:
            assert connections(ServeConfig(max_connections=100_000)) == 312
            assert connections(ServeConfig(max_connections=10)) == 10
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)

    @attack("http", "sessions without end")
    def test_sessions_are_bounded(self, served: Served) -> None:
        """Whatever one client takes, each of the others has its part; all together have no more than there are."""
        opened = []
        sure = SESSIONS // (2 * CLIENTS)
        for token in (CAROL, *MORE.values()):
            held = 0
            while (answer := request(served, body=INITIALIZE, token=token)).status == 200:
                opened.append((token, answer.header("mcp-session-id")))
                held += 1
                assert len(opened) <= SESSIONS
            assert answer.status == 503
            assert held >= sure
        assert ask(served, "code_execute", token=ALICE, mode="auto", code="1")[0] is False, "who needs none is served"
        for token, session in opened:
            request(served, "DELETE", token=token, headers={"Mcp-Session-Id": session})
        assert request(served, body=INITIALIZE, token=CAROL).status == 200

    @attack("http", "a long word that the server has to repeat")
    @pytest.mark.parametrize(("token", "told"), [("x" * 1024, True), ("x" * 1025, False)])
    def test_a_progress_token_that_is_long_is_not_told_again_and_again(
        self, served: Served, token: str, told: bool
    ) -> None:
        meta = {f"io.modelcontextprotocol/{name}": value for name, value in META.items()}
        arguments = {"code": "import time\ntime.sleep(0.5)\n6 * 7"}
        params = {"name": "code_execute", "arguments": arguments, "_meta": {**meta, "progressToken": token}}
        head = {"Mcp-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "code_execute"}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = request(served, token=CAROL, body=call, headers=head)
        assert b"42" in answer.body
        assert (b"notifications/progress" in answer.body) == told


def files_of(served: Served) -> int:
    return len(os.listdir(f"/proc/{served.process.pid}/fd"))


def trickle(connection: socket.socket, byte: bytes) -> bytes:
    """Send a byte now and then until the other end has had enough; what it has said."""
    data = b""
    connection.settimeout(0.1)
    until = time.monotonic() + 15
    while time.monotonic() < until:
        try:
            connection.sendall(byte)
            part = connection.recv(1 << 16)
        except TimeoutError:
            continue
        except ConnectionError:
            return data
        if not part:
            return data
        data += part
    raise AssertionError("it waits for ever")


class TestPathsAndMethods:
    @attack("http", "paths that climb, double, encode or end early")
    @pytest.mark.parametrize(
        "path",
        ["/", "/mcp/", "//mcp", "/mcp/..", "/healthz/../metrics", "/healthz/..%2fmetrics", "/../../etc/passwd", "/%2e%2e/etc/passwd",  # noqa: E501
         "/metrics/", "/healthz/", "/MCP", "/mcp%00", "/mcp;x", "/.well-known/oauth-protected-resource"],
    )  # fmt: skip
    def test_there_is_nothing_but_three_places(self, served: Served, path: str) -> None:
        answer = request(served, "GET", path, token=ALICE)
        assert answer.status == 404
        assert b"root:" not in answer.body

    @attack("http", "another spelling of a guarded place")
    def test_another_spelling_of_a_place_has_the_same_lock(self, served: Served) -> None:
        assert request(served, "GET", "/%6detrics").status == 401
        assert request(served, body=INITIALIZE, path="/%6d%63%70").status == 401
        assert (
            exchange(
                served, b"GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            ).status
            == 404
        )

    @attack("http", "methods that are not known")
    @pytest.mark.parametrize("method", ["PUT", "PATCH", "TRACE", "CONNECT", "OPTIONS", "HEAD", "post", "GETT"])
    def test_other_methods_do_nothing(self, served: Served, method: str) -> None:
        answer = request(served, method, token=ALICE, body=INITIALIZE)
        assert answer.status == 405
        assert answer.header("allow") == "GET, POST, DELETE"

    @attack("http", "headers that would change the method or the place")
    def test_a_method_is_what_the_request_says_it_is(self, served: Served) -> None:
        other = {"X-HTTP-Method-Override": "GET", "X-Original-URL": "/healthz", "X-Forwarded-For": "127.0.0.1"}
        assert request(served, "POST", "/metrics", token=ALICE, headers=other).status == 405
        assert request(served, "POST", "/mcp", body=INITIALIZE, headers=other).status == 401

    @attack("http", "another protocol")
    def test_no_other_protocol_is_spoken(self, served: Served) -> None:
        upgrade = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": "eA==",
            "Sec-WebSocket-Version": "13",
        }
        assert request(served, "GET", headers=upgrade).status == 401
        assert exchange(served, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").status in (0, 400, 421)
        assert exchange(served, b"\x16\x03\x01\x02\x00\x01\x00").status in (0, 400)

    @attack("http", "two lengths in one request")
    def test_one_request_is_not_two(self, served: Served) -> None:
        """Lengths that contradict each other, the end of one within the other."""
        hidden = f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ALICE}\r\n\r\n"
        head = (
            "POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\nTransfer-Encoding: "
            "chunked\r\n\r\n0\r\n\r\n"
        )
        answer = exchange(served, (head + hidden).encode())
        assert answer.status in (400, 405)
        assert b"go_ent_" not in answer.data
