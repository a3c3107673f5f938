"""The MCP servers that clients on this machine have already, as this project would write them.

Nothing is started. What an entry keeps secret stays in the client's file: its place is taken by a reference to an
environment variable, and the user is told which. A value is copied only if it is plainly no secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from go_ent.composer.errors import ConfigError
from go_ent.composer.project.files import read_bounded
from go_ent.composer.sources.secrets import is_spelled_out
from go_ent.composer.sources.server_config import REFERENCE, ServerConfig, configs_from_table, namespace_of
from go_ent.dataclass import dataclass
from go_ent.engine.settings.show import HIDDEN, masked_arguments
from go_ent.engine.setup.clients import CLIENTS, TITLES, USERS_ONLY, Client, Json, Place, Scope, place_of
from go_ent.engine.setup.json_edit import NotEditable, read
from go_ent.engine.setup.toml_edit import read_toml

MAX_FILE = 32 << 20  # ~/.claude.json holds a history, and grows to megabytes
MOST_SERVERS = 200  # of one file
MOST_ITEMS = 100  # arguments, variables or headers of one server
MOST_TEXT = 4000
SHOWN = 80
PLAIN = re.compile(
    r"true|false|yes|no|on|off|[0-9]{1,5}|debug|info|warn(?:ing)?|error|production|development|(?:/[\w.-]{1,40}){1,12}/?",
    re.IGNORECASE | re.ASCII,
)
FOREIGN = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)((?::-[^}]*)?)\}|\{env:([A-Za-z_]\w*)\}", re.ASCII)
INPUT = re.compile(r"\$\{input:([^}]{1,80})\}")
RANDOM = re.compile(r"(?=[^/]*[0-9])(?=[^/]*[A-Za-z])[\w.~-]{20,}", re.ASCII)  # a part of a path that nobody would type
BEARER = re.compile(r"(bearer|basic|token) +", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Found:
    """A server of a client: what this project would write, or why it can't be used."""

    name: str  # what its tools would be called by
    client: Client
    file: Path
    entry: Json = field(default_factory=dict)
    variables: tuple[str, ...] = ()  # to be set, since their values stay in the client's file
    notes: tuple[str, ...] = ()
    problem: str = ""

    @property
    def title(self) -> str:
        return TITLES[self.client]

    @property
    def reached(self) -> str:
        """What it starts, or where it is."""
        return str(self.entry.get("url") or " ".join([str(self.entry.get("command")), *self.entry.get("args", [])]))


def servers_of_clients(
    project: Path, clients: Iterable[Client] = (), environment: Mapping[str, str] | None = None
) -> tuple[list[Found], list[str]]:
    """The servers of those clients, or of all; of two with one name the first. And which files can't be read."""
    found: dict[str, Found] = {}
    problems: list[str] = []
    environment = os.environ if environment is None else environment
    for client in tuple(clients) or CLIENTS:
        scopes: tuple[Scope, ...] = ("user",) if client in USERS_ONLY else ("project", "user")
        for scope in scopes:
            place = place_of(client, scope, project, environment)
            try:
                for server in _of_file(client, place, project):
                    found.setdefault(server.name, server)
            except (NotEditable, OSError) as error:
                said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                problems.append(f"{place.file} ({TITLES[client]}): {said}")
    return list(found.values()), problems


def _of_file(client: Client, place: Place, project: Path) -> Iterator[Found]:
    if not place.file.is_file():
        return
    file = Path(os.path.realpath(place.file))
    if not file.is_relative_to(place.base.resolve()):
        raise NotEditable(f"it is a link that leads out of {place.base}")
    data = read_bounded(file, MAX_FILE)
    if len(data) > MAX_FILE:
        raise NotEditable(f"it is larger than {MAX_FILE >> 20} MB")
    text = data.decode("utf-8", "replace")
    document = read_toml(text) if file.suffix == ".toml" else read(text)[0]
    tables = [document.get(place.section)]
    if client == "claude" and isinstance(projects := document.get("projects"), dict):
        own = projects.get(str(project))  # servers that Claude Code has for this folder alone
        tables.insert(0, own.get(place.section) if isinstance(own, dict) else None)
    for table in tables:
        if table is not None and not isinstance(table, dict):
            raise NotEditable(f"{place.section!r} in it is not an object")
        for name, value in islice((table or {}).items(), MOST_SERVERS):
            if not _is_off(value) and not _is_ours(value):
                yield _Reader(client, place.file, project, name).found(value)


def _is_off(value: object) -> bool:
    return isinstance(value, dict) and (value.get("disabled") is True or value.get("enabled") is False)


def _is_ours(value: object) -> bool:
    command = value.get("command") if isinstance(value, dict) else None
    first = command[0] if isinstance(command, list) and command else command
    return isinstance(first, str) and os.path.basename(first) == "go-ent"


class _Unusable(Exception):
    """Internal: raised when an entry can't be used here; the message says why."""


class _Reader:
    """One entry of a client as one of this project."""

    def __init__(self, client: Client, file: Path, project: Path, name: str) -> None:
        self._client, self._file, self._project = client, file, project
        self._name = namespace_of(name[:SHOWN])
        self._variables: dict[str, None] = {}
        self._notes: list[str] = []

    def found(self, value: object) -> Found:
        try:
            if not isinstance(value, dict):
                raise _Unusable("it is not an object")
            entry = self._entry(value)
            configs_from_table({self._name: entry}, lambda _: "", "servers", ServerConfig)
        except _Unusable as error:
            return Found(self._name, self._client, self._file, problem=str(error))
        except ConfigError as error:
            return Found(self._name, self._client, self._file, problem="; ".join(error.problems)[:300])
        return Found(self._name, self._client, self._file, entry, tuple(self._variables), tuple(self._notes))

    def _entry(self, value: Json) -> Json:
        url = next((value[key] for key in ("url", "httpUrl", "serverUrl") if key in value), None)
        kind = value.get("type")
        if kind == "sse" or (self._client == "gemini" and "url" in value):
            raise _Unusable("it speaks SSE, which is no longer part of MCP: use its streamable HTTP address")
        if url is not None:
            headers = self._table(value, "headers") or self._table(value, "http_headers")
            made = {name: self._header(name, text) for name, text in headers.items()}
            if isinstance(token := value.get("bearer_token_env_var"), str):
                made["Authorization"] = f"Bearer ${{env:{token}}}"
            return {"url": self._url(_text(url, "url")), **({"headers": made} if made else {})}
        command = value.get("command")
        words = command if isinstance(command, list) else [command, *_list(value.get("args", []), "args")]
        program, *arguments = [self._foreign(_text(word, "command"), f"{self._name}_INPUT") for word in words or [None]]
        environment = self._table(value, "env") or self._table(value, "environment")
        entry: Json = {"command": program}
        if arguments:
            entry["args"] = self._arguments(arguments)
        if environment:
            entry["env"] = {name: self._variable(name, text) for name, text in environment.items()}
        if "cwd" in value:
            entry["cwd"] = self._foreign(_text(value["cwd"], "cwd"), f"{self._name}_CWD")
        if "envFile" in value:
            self._notes.append("its envFile is not read: set what it holds in your environment")
        return entry

    def _table(self, value: Json, key: str) -> dict[str, str]:
        found = value.get(key, {})
        if not isinstance(found, dict) or len(found) > MOST_ITEMS:
            raise _Unusable(f"{key} is not an object of at most {MOST_ITEMS} texts")
        return {str(name)[:SHOWN]: _text(text, key) for name, text in found.items()}

    def _foreign(self, text: str, name: str) -> str:
        """A text with the client's own references as ours."""
        text = text.replace("${workspaceFolder}", str(self._project)).replace("${userHome}", "${env:HOME}")
        text = INPUT.sub(lambda found: self._reference(found[1] if name.endswith("_INPUT") else name), text)
        return FOREIGN.sub(lambda found: f"${{env:{found[1] or found[3]}{found[2] or ''}}}", text)

    def _reference(self, name: str) -> str:
        """A reference to a variable that somebody has to set."""
        made = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").upper()
        made = f"V_{made}" if not made or not made[0].isalpha() else made
        self._variables[made] = None
        return f"${{env:{made}}}"

    def _variable(self, name: str, text: str) -> str:
        made = self._foreign(text, name)
        if REFERENCE.search(made) or (PLAIN.fullmatch(made) and not is_spelled_out(name, made)):
            return made
        return self._reference(name)

    def _header(self, name: str, text: str) -> str:
        made = self._foreign(text, f"{self._name}_{name}")
        if REFERENCE.search(made) or (PLAIN.fullmatch(made) and not is_spelled_out(name, made)):
            return made
        word = BEARER.match(made)
        return f"{word[0]}{self._reference(f'{self._name}_TOKEN')}" if word else self._reference(f"{self._name}_{name}")

    def _url(self, text: str) -> str:
        made = self._foreign(text, f"{self._name}_URL")
        try:
            parts = urlsplit(REFERENCE.sub("", made))
        except ValueError:
            raise _Unusable("its address is none") from None
        secret = parts.query or parts.username or parts.password or any(map(RANDOM.fullmatch, parts.path.split("/")))
        return self._reference(f"{self._name}_URL") if secret else made

    def _arguments(self, arguments: list[str]) -> list[str]:
        """Arguments without the secrets among them."""
        if len(arguments) > MOST_ITEMS:
            raise _Unusable(f"it has more than {MOST_ITEMS} arguments")
        made = []
        for number, (given, masked) in enumerate(zip(arguments, masked_arguments(arguments), strict=True), 1):
            kept = masked.removesuffix(HIDDEN)
            if HIDDEN not in masked or HIDDEN in given:
                made.append(given)
            else:  # a flag that names it may stay; of anything else, nothing
                reference = self._reference(f"{self._name}_ARG_{number}")
                made.append(f"{kept}{reference}" if kept.endswith("=") and given.startswith(kept) else reference)
        return made


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or len(value) > MOST_TEXT:
        raise _Unusable(f"{what} is not a text of at most {MOST_TEXT} characters")
    return value


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise _Unusable(f"{what} is not a list")
    return value
