"""Logins to servers that want one: asked for once, kept, refreshed in a later process, and never asked for by a run."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Protocol

import keyring
import pytest
from keyring.backend import KeyringBackend

from go_ent.composer.catalogue.spec import CallContext
from go_ent.composer.config import Config
from go_ent.composer.errors import ConfigError, Unavailable
from go_ent.composer.sources.configured import server_source
from go_ent.composer.sources.listing import ListingStore
from go_ent.composer.sources.logins import Callback, Login, LoginStore, NotLoggedIn
from go_ent.composer.sources.mcp import McpSource
from go_ent.composer.sources.server_config import ServerConfig
from go_ent.engine.setup.servers import Answer, Servers
from tests.support.oauth_server import OAuthServer, browse, oauth_server

NOBODY = CallContext()


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    with oauth_server() as state:
        yield state


class User:
    """Who logs in, with a browser."""

    def __init__(self, server: OAuthServer, project: Path) -> None:
        self.server, self.project = server, project
        self.config = ServerConfig(url=server.url, auth="oauth")
        self.servers = Servers(project, Config(servers={"guarded": self.config}))
        self.shown: list[str] = []
        self.page = ""

    async def login(self) -> Answer:
        async def show(address: str) -> None:
            self.shown.append(address)
            self.page = await asyncio.to_thread(browse, address)

        return await self.servers.login("guarded", show, 20.0)

    def source(self) -> McpSource:
        """As a later process opens it."""
        return server_source("guarded", self.config, self.project, ListingStore(self.project))


@pytest.fixture
def user(server: OAuthServer, tmp_path: Path) -> User:
    return User(server, tmp_path)


def expire(server: OAuthServer) -> None:
    """Time passes: the access token is worth nothing any more."""
    login = LoginStore().load(server.url)
    assert login is not None
    LoginStore().save(login.model_copy(update={"expires_at": time.time() - 1}))
    server.valid.clear()


class TestLogin:
    async def test_a_person_is_shown_the_address_and_the_login_is_kept(self, user: User, server: OAuthServer) -> None:
        answer = await user.login()
        assert (answer.problem, [spec.name for spec in answer.tools]) == ("", ["guarded.whoami"])
        assert user.shown[0].startswith(f"{server.address}/let/me/in?")
        assert "You are logged in" in user.page
        kept = LoginStore().load(server.url)
        assert kept is not None
        assert kept.tokens is not None
        assert kept.tokens["access_token"] == "access-token-1-of-test"
        path = LoginStore().path(server.url)
        assert LoginStore().where(server.url) == str(path)
        assert path.is_relative_to(os.environ["GO_ENT_DATA"])
        assert path.stat().st_mode & 0o777 == 0o600

    async def test_a_later_process_uses_it_and_no_answer_holds_it(self, user: User, server: OAuthServer) -> None:
        await user.login()
        source = user.source()
        assert await source.call("guarded.whoami", {}, NOBODY) == "you sent [secret]"
        assert len(user.shown) == 1
        await source.close()

    async def test_a_token_that_has_expired_is_refreshed_where_the_server_said(
        self, user: User, server: OAuthServer
    ) -> None:
        await user.login()
        expire(server)
        server.asked.clear()
        source = user.source()
        assert await source.call("guarded.whoami", {}, NOBODY) == "you sent [secret]"
        await source.close()
        assert server.asked[0] == "/tokens/are/here"
        assert "/let/me/in" not in server.asked
        kept = LoginStore().load(server.url)
        assert kept is not None
        assert kept.tokens is not None
        assert kept.tokens["refresh_token"] == "refresh-token-2-of-test"
        assert kept.expires_at is not None
        assert kept.expires_at > time.time()

    async def test_one_that_can_not_be_refreshed_is_told_and_nobody_is_asked(
        self, user: User, server: OAuthServer
    ) -> None:
        await user.login()
        expire(server)
        server.refresh_tokens.clear()
        source = user.source()
        with pytest.raises(Unavailable) as caught:
            await source.live_tools()
        assert str(caught.value) == "MCP server guarded: its login has expired; go-ent server login guarded logs in"
        assert "/let/me/in" not in server.asked[-4:]
        await source.close()
        assert (await user.login()).problem == ""

    async def test_one_that_expires_during_a_connection(self, user: User, server: OAuthServer) -> None:
        await user.login()
        source = user.source()
        await source.live_tools()
        server.valid.clear()  # before its time: the server says so
        server.asked.clear()
        assert await source.call("guarded.whoami", {}, NOBODY) == "you sent [secret]"
        assert server.asked == ["/mcp", "/tokens/are/here", "/mcp"]
        server.valid.clear()
        server.refresh_tokens.clear()
        server.asked.clear()
        with pytest.raises(Unavailable, match="its login has expired; go-ent server login guarded logs in"):
            await source.call("guarded.whoami", {}, NOBODY)
        assert server.asked.count("/tokens/are/here") == 1
        assert "/let/me/in" not in server.asked
        await source.close()

    async def test_without_a_login_nothing_is_requested(self, user: User, server: OAuthServer) -> None:
        source = user.source()
        with pytest.raises(Unavailable, match=r"^MCP server guarded: nobody is logged in; go-ent server login guarded"):
            await source.tools()
        assert server.asked == []
        await source.close()

    async def test_a_login_that_is_refused(self, user: User, server: OAuthServer) -> None:
        server.refuses = "access_denied"
        answer = await user.login()
        assert "the login was refused: access_denied" in answer.problem
        assert LoginStore().load(server.url) is None

    async def test_an_address_that_no_browser_should_get(self, user: User, server: OAuthServer) -> None:
        server.authorization = "file:///etc/passwd"
        answer = await user.login()
        assert answer.problem
        assert not any(address.startswith("file") for address in user.shown)

    async def test_logging_in_again_replaces_the_login_only_when_it_succeeds(
        self, user: User, server: OAuthServer
    ) -> None:
        await user.login()
        server.refuses = "access_denied"
        await user.login()
        assert LoginStore().load(server.url) is not None

    async def test_logout_forgets(self, user: User, server: OAuthServer) -> None:
        await user.login()
        assert user.servers.login_state("guarded") == "logged in"
        assert LoginStore().forget(server.url)
        assert not LoginStore().forget(server.url)
        assert user.servers.login_state("guarded") == "not logged in"

    async def test_a_server_that_wants_no_login(self, tmp_path: Path) -> None:
        servers = Servers(tmp_path, Config(servers={"x": ServerConfig(command="x")}))
        with pytest.raises(ConfigError, match="x needs no login"):
            servers.address("x")
        assert servers.login_state("x") is None


class Ring(Protocol):
    """A keyring in memory."""

    kept: dict[tuple[str, str], str]


def make_ring() -> Any:
    """A keyring that fits keyring's own type. Where it is defined it is known to all: so not before it is needed."""

    class InMemory(KeyringBackend):
        priority: ClassVar[float] = 9
        kept: ClassVar[dict[tuple[str, str], str]] = {}

        def get_password(self, service: str, username: str) -> str | None:
            return self.kept.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            self.kept[service, username] = password

        def delete_password(self, service: str, username: str) -> None:
            del self.kept[service, username]

    return InMemory()  # type: ignore[no-untyped-call]


class TestStore:
    URL = "https://x.example/mcp"

    @pytest.fixture
    def ring(self) -> Iterator[Ring]:
        before = keyring.get_keyring()
        ring = make_ring()
        keyring.set_keyring(ring)
        yield ring
        keyring.set_keyring(before)
        KeyringBackend._classes.discard(type(ring))

    def test_the_systems_keyring_is_used_where_there_is_one(self, ring: Ring) -> None:
        store = LoginStore()
        store.save(Login(url=self.URL, tokens={"access_token": "a"}))
        assert list(ring.kept) == [("go-ent", self.URL)]
        assert not store.path(self.URL).exists()
        assert store.where(self.URL) == "the system's keyring"
        assert store.load(self.URL) == Login(url=self.URL, tokens={"access_token": "a"})
        assert store.forget(self.URL)
        assert ring.kept == {}

    def test_a_keyring_that_fails_is_no_reason_to_lose_a_login(
        self, ring: Ring, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: Any) -> None:
            raise RuntimeError("locked")

        monkeypatch.setattr(ring, "set_password", fail)
        monkeypatch.setattr(ring, "get_password", fail)
        LoginStore().save(Login(url=self.URL))
        assert LoginStore().load(self.URL) == Login(url=self.URL)

    @pytest.mark.parametrize(
        "data", [b"", b"{}", b"[", b'{"url":"https://y.example/mcp"}', b'{"url":"x","more":1}', b"\xff"]
    )
    def test_what_is_no_login_is_none(self, data: bytes) -> None:
        path = LoginStore().path(self.URL)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        assert LoginStore().load(self.URL) is None

    def test_a_link_is_not_followed(self, tmp_path: Path) -> None:
        elsewhere = tmp_path / "login.json"
        elsewhere.write_text(json.dumps({"url": self.URL}))
        path = LoginStore().path(self.URL)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(elsewhere)
        assert LoginStore().load(self.URL) is None


class TestCallback:
    @pytest.mark.parametrize(
        "request_",
        [
            b"GET /other?code=x HTTP/1.1\r\n\r\n",
            b"POST /callback?code=x HTTP/1.1\r\n\r\n",
            b"GET /callback HTTP/1.1\r\n\r\n",
            b"GET /callback?code=" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
            b"GET /callback?" + b"&".join(b"a%d=1" % n for n in range(500)) + b"&code=x HTTP/1.1\r\n\r\n",
            b"\r\n\r\n",
            b"\xff\xfe\r\n\r\n",
        ],
    )
    async def test_what_is_no_answer_is_none(self, request_: bytes) -> None:
        async def show(_: str) -> None: ...

        async with Callback.listening(show) as callback:
            port = int(callback.address.rpartition(":")[2].partition("/")[0])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request_)
            answer = await reader.read(200)
            assert answer.startswith(b"HTTP/1.1 404"), answer
            assert not callback.answered
            writer.close()

    @pytest.mark.parametrize(
        "address", ["file:///etc/passwd", "javascript:alert(1)", "ssh://x", "http://x/\x1b[2J", "x" * 9000]
    )
    async def test_an_address_that_is_not_shown(self, address: str) -> None:
        shown: list[str] = []

        async def show(one: str) -> None:
            shown.append(one)

        async with Callback.listening(show) as callback:
            with pytest.raises(NotLoggedIn):
                await callback.show(address)
        assert shown == []

    async def test_what_the_server_says_of_a_refusal_is_text(self) -> None:
        async def show(_: str) -> None: ...

        async with Callback.listening(show) as callback:
            page = await asyncio.to_thread(browse, f"{callback.address}?error=no&error_description=%3Cscript%3E")
        assert "&lt;script&gt;" in page
        assert "<script" not in page
