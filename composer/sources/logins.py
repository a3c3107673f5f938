"""Logins to servers that ask for OAuth: kept for the address they were made for, and refreshed when they expire.

They are in the system's keyring where there is one, else in a file of mode 0600 in the user's data folder. Calls
without a login say so: only `go-ent server login` asks a person.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import html
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from go_ent.composer.errors import ConfigError
from go_ent.composer.project.files import read_bounded, user_data, write_whole

if TYPE_CHECKING:  # their import takes a second: it waits until a server is reached
    import httpx2
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

MAX_LOGIN = 256 << 10
MAX_ADDRESS = 8 << 10  # characters of the address that a person opens
CLOSE_S = 2.0  # that a browser has to read its last answer
MAX_ANSWER = 16 << 10  # bytes of what the browser sends back
SERVICE = "go-ent"
LOUD = ("mcp.client.auth.oauth2", "mcp.client.auth.utils", "mcp.client.streamable_http")
NO_KEYRINGS = ("keyring.backends.fail", "keyring.backends.null")

Show = Callable[[str], Awaitable[None]]  # shows a person the address to open


class NotLoggedIn(ConfigError):
    """Internal: raised when a server wants a login that there is not, or that can't be refreshed: an `Unavailable`."""


class Login(BaseModel):
    """What is kept of a login."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    version: Literal[1] = 1
    url: Annotated[str, Field(max_length=MAX_ADDRESS)]
    tokens: dict[str, Any] | None = None
    expires_at: float | None = None
    client: dict[str, Any] | None = None  # as the server has registered us
    server: dict[str, Any] | None = None  # what the authorization server says of itself: where tokens are refreshed
    resource: dict[str, Any] | None = None

    @property
    def secrets(self) -> set[str]:
        """What must not reach a message."""
        kept = {**(self.tokens or {}), **(self.client or {})}
        return {
            value
            for name in ("access_token", "refresh_token", "client_secret")
            if isinstance(value := kept.get(name), str)
        }


class LoginStore:
    """The logins of this user, by address. Methods block: a keyring may ask a person to unlock it."""

    def load(self, url: str) -> Login | None:
        for text in (self._from_keyring(url), self._from_file(url)):
            with contextlib.suppress(ValidationError):
                found = Login.model_validate_json(text or "")
                if found.url == url:
                    return found
        return None

    def save(self, login: Login) -> None:
        text = login.model_dump_json(exclude_none=True)
        if (keyring := _keyring()) is not None:
            with contextlib.suppress(Exception):  # whatever a backend raises: the file will do
                keyring.set_password(SERVICE, login.url, text)
                self.path(login.url).unlink(missing_ok=True)
                return
        path = self.path(login.url)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(path, text.encode(), mode=0o600)

    def forget(self, url: str) -> bool:
        """Forget a login; whether there was one."""
        there = self.load(url) is not None
        if (keyring := _keyring()) is not None:
            with contextlib.suppress(Exception):
                keyring.delete_password(SERVICE, url)
        self.path(url).unlink(missing_ok=True)
        return there

    def where(self, url: str) -> str:
        """Where a login is kept, for people."""
        return "the system's keyring" if self._from_keyring(url) else str(self.path(url))

    def path(self, url: str) -> Path:
        """The file of a login that no keyring has."""
        return user_data() / "logins" / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"

    def _from_file(self, url: str) -> str | None:
        path = self.path(url)
        try:
            data = read_bounded(path, MAX_LOGIN)
            return data.decode() if len(data) <= MAX_LOGIN and path.stat().st_uid == os.getuid() else None
        except (OSError, ValueError):
            return None

    def _from_keyring(self, url: str) -> str | None:
        if (keyring := _keyring()) is None:
            return None
        with contextlib.suppress(Exception):
            found = keyring.get_password(SERVICE, url)
            return found if isinstance(found, str) and len(found) <= MAX_LOGIN else None
        return None


def _keyring() -> Any:
    """The system's keyring, if there is one that keeps anything."""
    import keyring

    with contextlib.suppress(Exception):
        backend = keyring.get_keyring()
        if not type(backend).__module__.startswith(NO_KEYRINGS) and backend.priority > 0:
            return backend
    return None


class TokenStorage:
    """One login, as the SDK reads and writes it."""

    def __init__(self, url: str, store: LoginStore, *, anew: bool = False) -> None:
        """*anew* begins without what is kept, which stays until there is something in its place."""
        self._store, self._anew = store, anew
        self.login = Login(url=url)
        self.heard: Callable[[], None] = lambda: None  # called when there are other tokens
        self.refused: Callable[[str], None] = lambda _: None  # called when nobody can be asked for a login
        self.context: Any = None  # the SDK's

    async def load(self) -> Login:
        if not self._anew:
            kept = await asyncio.to_thread(self._store.load, self.login.url)
            self.login = kept if kept is not None else self.login
        return self.login

    async def get_tokens(self) -> OAuthToken | None:
        from mcp.shared.auth import OAuthToken

        found: OAuthToken | None = as_model(OAuthToken, (await self.load()).tokens)
        return found

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        from mcp.shared.auth import OAuthClientInformationFull

        found: OAuthClientInformationFull | None = as_model(OAuthClientInformationFull, self.login.client)
        return found

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep tokens, with all that a later process needs to refresh them."""
        context = self.context
        found = context.oauth_metadata, context.protected_resource_metadata
        server, resource = (None if one is None else one.model_dump(mode="json", exclude_none=True) for one in found)
        self.login = self.login.model_copy(
            update={
                "tokens": tokens.model_dump(mode="json", exclude_none=True),
                "expires_at": None if tokens.expires_in is None else time.time() + tokens.expires_in,
                "server": server,
                "resource": resource,
            }
        )
        await asyncio.to_thread(self._store.save, self.login)
        self.heard()

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.login = self.login.model_copy(update={"client": client_info.model_dump(mode="json", exclude_none=True)})


def as_model(kind: Any, value: dict[str, Any] | None) -> Any:
    """What was kept, if it is still what the SDK knows."""
    with contextlib.suppress(ValidationError):
        return None if value is None else kind.model_validate(value)
    return None


def auth_for(storage: TokenStorage, ask: Callback | None = None) -> httpx2.Auth:
    """How requests to an address are authorised: with its login, which is refreshed as needed. Only with *ask* a person
    is asked for one.
    """
    from mcp.shared.auth import OAuthClientMetadata

    from go_ent.composer.sources.mcp_adapter import LastingLogin

    async def show(address: str) -> None:
        if ask is None:
            storage.refused("its login has expired")
            raise NotLoggedIn("its login has expired")
        with _telling(storage):
            await ask.show(address)

    async def answer() -> AuthorizationCodeResult:
        assert ask is not None
        with _telling(storage):
            return await ask.answer()

    for name in LOUD:  # they log what fails at length, with addresses and answers; what is wrong is told by us
        logging.getLogger(name).setLevel(logging.CRITICAL)

    metadata = OAuthClientMetadata.model_validate(
        {
            "client_name": "go-ent",
            "redirect_uris": ["http://127.0.0.1/callback" if ask is None else ask.address],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
    )
    provider = LastingLogin(
        server_url=storage.login.url,
        client_metadata=metadata,
        storage=storage,
        redirect_handler=show,
        callback_handler=answer,
    )
    storage.context = provider.context
    return provider


@contextlib.contextmanager
def _telling(storage: TokenStorage) -> Iterator[None]:
    """The SDK passes on that a login failed, but not why."""
    try:
        yield
    except NotLoggedIn as error:
        storage.refused(str(error))
        raise


class Callback:
    """Where a browser comes back to after a login: an address on this machine, for one answer."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self.address = ""

    @classmethod
    @contextlib.asynccontextmanager
    async def listening(cls, show: Show) -> AsyncIterator[Callback]:
        made = cls(show)
        server = await asyncio.start_server(made._serve, "127.0.0.1", 0, limit=MAX_ANSWER)
        made.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/callback"
        try:
            yield made
        finally:
            server.close()
            if not made._answer.done():
                made._answer.cancel()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await server.wait_closed()

    @property
    def answered(self) -> bool:
        return self._answer.done()

    async def show(self, address: str) -> None:
        """Show a person the address to log in at. It comes from the server: no program but a browser gets it."""
        if urlsplit(address).scheme not in ("http", "https") or not address.isprintable() or len(address) > MAX_ADDRESS:
            raise NotLoggedIn("the server's address for logging in is not one that can be opened")
        await self._show(address)

    async def answer(self) -> AuthorizationCodeResult:
        from mcp.shared.auth import AuthorizationCodeResult

        found = await self._answer
        if "error" in found:
            raise NotLoggedIn(f"the login was refused: {found.get('error_description') or found['error']}"[:500])
        return AuthorizationCodeResult(code=found.get("code", ""), state=found.get("state"), iss=found.get("iss"))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        status, said = "404 Not Found", "There is nothing here."
        try:
            async with asyncio.timeout(10):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii", "replace")
            method, _, rest = head.partition("\r\n")[0].partition(" ")
            parts = urlsplit(rest.partition(" ")[0])
            query = {name: values[0] for name, values in parse_qs(parts.query, max_num_fields=20).items()}
            if method == "GET" and parts.path == "/callback" and query.keys() & {"code", "error"}:
                if not self._answer.done():
                    self._answer.set_result(query)
                failed = query.get("error_description") or query.get("error")
                said = f"The login was refused: {failed}" if failed else "You are logged in. You can close this page."
                status = "200 OK"
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        body = f"<!doctype html><title>go-ent</title><p>{html.escape(said[:500])}</p>".encode()
        answer = f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        with contextlib.suppress(OSError):
            try:
                writer.write(answer.encode() + b"Connection: close\r\n\r\n" + body)
                await writer.drain()
            finally:
                writer.close()
                await writer.wait_closed()
