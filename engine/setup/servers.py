"""A project's servers and APIs: what is known of each without starting it, what it says when it is asked, and what to
do about one that fails.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Iterable
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from go_ent.composer.catalogue.spec import ToolSpec
from go_ent.composer.config import Config, read_config
from go_ent.composer.errors import ComposerError, ConfigError, ToolNotFound
from go_ent.composer.project.items import reason
from go_ent.composer.project.trust import is_trusted
from go_ent.composer.sources.configured import api_source, server_source
from go_ent.composer.sources.listing import Copy, ListingStore
from go_ent.composer.sources.logins import Callback, LoginStore, Show
from go_ent.composer.sources.server_config import REFERENCE, resolve
from go_ent.dataclass import dataclass
from go_ent.sandbox.children.programs import find_program
from go_ent.sandbox.messages.near_names import did_you_mean, near

if TYPE_CHECKING:
    from go_ent.composer.sources.mcp import McpSource


@dataclass(slots=True)
class Answer:
    """What a server said when it was asked."""

    name: str
    tools: list[ToolSpec] = field(default_factory=list)
    changes: dict[str, str] = field(default_factory=dict)  # since the last time, by tool
    notes: list[str] = field(default_factory=list)
    server: str = ""  # what it calls itself
    problem: str = ""  # why it did not answer
    remedy: str = ""  # what to do about that


class Servers:
    """The servers and APIs of one project."""

    def __init__(self, project: Path, config: Config | None = None) -> None:
        self.project = project
        self.trusted = is_trusted(project)
        self.config = config if config is not None else read_config(project)
        self.store = ListingStore(project)

    @property
    def names(self) -> list[str]:
        return [*self.config.servers, *self.config.apis]

    def check(self, name: str) -> str:
        """*name*, if there is a server or an API of that name."""
        if name not in self.names:
            there = f"; there are {', '.join(self.names)}" if self.names else "; go-ent server add adds one"
            why = self.config.unusable.get(name)
            raise ToolNotFound(
                f"{name} can't be used: {why}"
                if why
                else f"there is no server {name}{did_you_mean(near(name, self.names)) or there}"
            )
        return name

    def source(self, name: str) -> McpSource:
        """A server as a source of tools, which is not connected yet."""
        self.check(name)
        server = self.config.servers.get(name)
        if server is not None:
            return server_source(name, server, self.project, self.store)
        return api_source(name, self.config.apis[name], self.store)

    def kind(self, name: str) -> str:
        server = self.config.servers.get(name)
        return "openapi" if server is None else "http" if server.url is not None else "stdio"

    def reached(self, name: str) -> str:
        """What is started, or where it is: as it is written, so that no reference is resolved."""
        server = self.config.servers.get(name)
        if server is None:
            document = self.config.apis[name].document
            return str(document.relative_to(self.project) if document.is_relative_to(self.project) else document)
        return server.url or shlex.join([str(server.command), *server.args])

    async def copy(self, name: str) -> Copy | None:
        """What is kept of its tools. Of a folder that is not trusted, nothing is opened to see whose copy it is."""
        return await self.source(name).copy() if self.trusted else None

    def address(self, name: str) -> str:
        """The address of a server that wants a login."""
        server = self.config.servers.get(self.check(name))
        if server is None or server.url is None or server.auth != "oauth":
            raise ConfigError(f'{name} needs no login: that is for a server with a url, and auth = "oauth"')
        return resolve(server.url, os.environ, "url")

    def login_state(self, name: str) -> str | None:
        """Whether anybody is logged in to a server, if it wants that."""
        try:
            return "logged in" if LoginStore().load(self.address(name)) is not None else "not logged in"
        except ConfigError:
            return None

    async def login(self, name: str, show: Show, timeout_s: float) -> Answer:
        """Have a person log in to a server: *show* gets the address to open. Then it is asked for its tools."""
        self.address(name)
        config = self.config.servers[name].model_copy(update={"start_timeout_s": timeout_s})
        async with Callback.listening(show) as callback:
            return await self._answer(name, server_source(name, config, self.project, self.store, callback))

    async def ask(self, names: Iterable[str]) -> list[Answer]:
        """Connect to servers, all at once, and list what they have now."""
        return list(await asyncio.gather(*(self._ask(name) for name in names)))

    async def _ask(self, name: str) -> Answer:
        return await self._answer(name, self.source(name))

    async def _answer(self, name: str, source: McpSource) -> Answer:
        try:
            changes = await source.refresh()
            copy = await source.copy()
            return Answer(name, await source.tools(), changes, source.notes, "" if copy is None else copy.server)
        except ComposerError as error:
            told = str(error).removeprefix(f"{source.origin}: ").removeprefix(f"{source.origin} ")
            return Answer(name, problem=told, remedy=self.remedy(name))
        except Exception as error:
            return Answer(name, problem=reason(error, name), remedy=self.remedy(name))
        finally:
            await source.close()

    def remedy(self, name: str) -> str:
        """What to do about a server that does not answer: by what its settings say, not by what it said."""
        again = f"then go-ent server refresh {name}"
        server = self.config.servers.get(name)
        section = "openapi" if server is None else "servers"
        settings = self.config.apis[name] if server is None else server
        texts = settings.model_dump_json(exclude_none=True)
        unset = [one[1] for one in REFERENCE.finditer(texts) if one[2] is None and one[1] not in os.environ]
        if unset:
            return f"set {', '.join(dict.fromkeys(unset))}, {again}"
        if server is None:
            return f"mend the document, or [{section}.{name}] in .go-ent/config.toml, {again}"
        if server.url is not None:
            if server.auth == "oauth":
                return f"go-ent server login {name}"
            secrets = ", ".join(dict.fromkeys(one[1] for one in REFERENCE.finditer(texts)))
            token = (
                f"renew {secrets} if it has expired" if secrets else 'if it wants a token, set token or auth = "oauth"'
            )
            return f"see that it runs and that its address is right in [{section}.{name}]; {token}; {again}"
        command = str(server.command)
        path = server.env.get("PATH") or os.environ.get("PATH")
        if not REFERENCE.search(command) and find_program(command, path, self.project / (server.cwd or ".")) is None:
            return f"install {command}, or correct command in [{section}.{name}], {again}"
        by_hand = f"run it by hand to see more: {self.reached(name)}"
        return f"{by_hand}; if it is only slow, raise start_timeout_s in [{section}.{name}]"
