"""Which MCP servers there are, and how each is reached: read from TOML tables or from an mcpServers file.

A secret is written as a reference, `${env:NAME}`, and stays one here: it is resolved when a server starts, so that
no configuration, no message and no log ever holds its value.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import quote

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import to_json

from go_ent.composer.catalogue.reserved import NAMESPACES
from go_ent.composer.catalogue.spec import check_namespace
from go_ent.composer.errors import BadName, ConfigError
from go_ent.composer.project.files import read_bounded
from go_ent.composer.project.layers import dotted
from go_ent.composer.project.problems import Setting, Where, problem, problems

MAX_FILE = 1 << 20
LEAST_KEPT = 8  # a shorter value is a word of any result
INHERITED = frozenset(
    {"PATH", "HOME", "LANG", "TMPDIR", "USER", "SHELL", "TERM"}
)  # and LC_*: all that a child needs of ours
DAY_S = 86_400

# `${env:NAME}`, or `${env:NAME:-what to use when there is none}`.
REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_BAD_REFERENCE = re.compile(r"\$\{env:")
_FOREIGN_REFERENCE = re.compile(r"\$\{(?!env:)([A-Za-z_][A-Za-z0-9_]*)((?::-[^}]*)?)\}")  # as in Claude Code's files
_NO_NAME = re.compile(r"[^A-Za-z0-9_*]")  # in names and patterns of tools: what a name in Python can't have
_RATE = re.compile(r"([1-9][0-9]{0,6})/(s|m|h)")
_PERIOD_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
_HTTP_TYPES = frozenset({"http", "streamable-http", "streamable_http", "streamablehttp"})

Model = TypeVar("Model", bound=BaseModel)


def parse_rate(text: str) -> tuple[int, float]:
    """How many calls in how many seconds: `10/s` is (10, 1.0)."""
    if not (match := _RATE.fullmatch(text)):
        raise ValueError(f"{text[:40]!r} is not a rate: write 10/s, 100/m or 1000/h")
    return int(match[1]), _PERIOD_S[match[2]]


def _rate(text: str) -> str:
    parse_rate(text)
    return text


def _referring(text: str) -> str:
    if "\0" in text:
        raise ValueError("it has a NUL character")
    if _BAD_REFERENCE.search(REFERENCE.sub("", text)):
        raise ValueError("it has ${env: without a name and a closing brace: write ${env:NAME}")
    return text


Rate = Annotated[str, AfterValidator(_rate)]
Referring = Annotated[str, AfterValidator(_referring)]  # a text that may hold references
Seconds = Annotated[float, Field(gt=0, le=DAY_S, allow_inf_nan=False)]


Expose = Literal["code", "direct", "both"]


class ToolOptions(BaseModel):
    """What holds for one tool of a server, or for all whose names fit a pattern like `get_*`."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    timeout_s: Seconds | None = Field(
        default=None, description="seconds that one call may take; by default the source's `timeout_s`"
    )
    retries: int = Field(
        default=2, ge=0, le=10, description="retries after a lost connection; only for idempotent and read-only tools"
    )
    rate: Rate | None = Field(default=None, description="how often it may be called: 10/s, 100/m or 1000/h")
    expose: Expose | None = Field(default=None, description="as for the source, which it overrides")


class SourceOptions(BaseModel):
    """What holds for a server however it is reached."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    timeout_s: Seconds = Field(default=60.0, description="seconds that one call may take")
    start_timeout_s: Seconds = Field(default=20.0, description="seconds it may take to start")
    rate: Rate | None = Field(
        default=None, description="how often its tools may be called: 10/s, 100/m or 1000/h", examples=["10/s"]
    )
    expose: Expose = Field(
        default="code",
        description="how MCP clients find its granted tools: `code` (by code), `direct` (listed by name) or `both`",
    )
    tools: dict[str, ToolOptions] = Field(
        default_factory=dict, description="settings for single tools, by name or by a pattern like `get_*`"
    )

    def key_of(self, *names: str) -> str | None:
        """The entry of `tools` that holds for a tool of those names: its own, else the first pattern that fits."""
        if found := next((name for name in names if name in self.tools), None):
            return found
        for key in self.tools:
            fitting = _NO_NAME.sub("_", key)
            if any(fnmatchcase(_NO_NAME.sub("_", name), fitting) for name in names):
                return key
        return None

    def exposure(self, name: str) -> Expose:
        """How a tool is offered to MCP clients."""
        key = self.key_of(name)
        return (self.tools[key].expose if key is not None else None) or self.expose


class ServerConfig(SourceOptions):
    """One MCP server: a command that speaks over its stdin and stdout, or an address for streamable HTTP.

    Its values may hold references, never what they resolve to. `env` and `headers` are still kept out of its repr,
    because people do write secrets into them. `auth = "oauth"` lets a person log in with a browser: give
    `start_timeout_s` the time that takes.
    """

    command: Referring | None = Field(
        default=None, description="the program, for a server that speaks MCP over stdin and stdout", examples=["npx"]
    )
    args: list[Referring] = Field(
        default_factory=list,
        repr=False,
        description="its arguments",
        examples=[["-y", "@modelcontextprotocol/server-filesystem", "."]],
    )
    env: dict[str, Referring] = Field(
        default_factory=dict, repr=False, description="environment variables to set for it"
    )
    cwd: Referring | None = Field(default=None, description="its working directory, relative to the project")

    url: Referring | None = Field(
        default=None, repr=False, description="the URL, for a server that speaks MCP over HTTP"
    )
    headers: dict[str, Referring] = Field(
        default_factory=dict, repr=False, description="headers to send with every request"
    )
    auth: Literal["oauth"] | None = Field(default=None, description="`oauth`: log in with a browser")
    token: Referring | None = Field(default=None, repr=False, description="a bearer token, as a reference: ${env:NAME}")

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either command (a program to start) or url (a server to connect to)")
        over_http = {"headers": self.headers, "auth": self.auth, "token": self.token}
        over_stdio = {"args": self.args, "env": self.env, "cwd": self.cwd}
        needless = [name for name, value in (over_http if self.url is None else over_stdio).items() if value]
        if needless:
            raise ValueError(
                f"{', '.join(needless)}: only for a server with {'url' if self.url is None else 'command'}"
            )
        if self.command is not None and not self.command.strip():
            raise ValueError("command: it is empty")
        if self.url is not None and not re.match(r"https?://|\$\{env:", self.url):
            raise ValueError("url: it must begin with http:// or https://")
        if self.token is not None and not REFERENCE.search(self.token):
            raise ValueError("token: write it as a reference, ${env:NAME}, so that no file holds the secret")
        if self.token is not None and self.auth is not None:
            raise ValueError("token, auth: give one of them")
        return self


def resolve(text: str, environ: Mapping[str, str], where: str = "") -> str:
    """*text* with the values that its references name. What comes out may be a secret: keep it out of messages."""

    def value(match: re.Match[str]) -> str:
        found = environ.get(match[1], match[2])
        if found is None:
            raise ConfigError(f"{where or 'a setting'}: the environment variable {match[1]} is not set")
        return found

    return REFERENCE.sub(value, text)


def referred(texts: Iterable[str], environ: Mapping[str, str]) -> set[str]:
    """The values that references in *texts* stand for: what must not reach a message."""
    return {environ.get(name, default) for text in texts for name, default in REFERENCE.findall(text)}


def kept_back(texts: Iterable[str], environ: Mapping[str, str]) -> Scrubber:
    """What takes the secrets among those values out of results too, where whatever is taken out may be missed.

    So not short ones, not the paths of what is on this machine, and nothing that is written in the configuration
    itself.
    """
    names = {name for text in texts for name, _ in REFERENCE.findall(text)} & environ.keys() - INHERITED
    return Scrubber(
        value for value in map(environ.__getitem__, names) if len(value) >= LEAST_KEPT and not _is_path(value)
    )


def _is_path(value: str) -> bool:
    return value.startswith("/") and os.path.exists(value)


def servers_from_table(table: Any, where: Where) -> dict[str, ServerConfig]:
    """The servers of a file's `[servers.NAME]` tables, by namespace. `ConfigError` has all that is wrong, and
    *where* it stands.
    """
    return configs_from_table(table, where, "servers", ServerConfig)


def configs_from_table(table: Any, where: Where, section: str, model: type[Model]) -> dict[str, Model]:
    """The `[section.NAME]` tables of a file as models, by namespace."""
    if not isinstance(table, Mapping):
        raise ConfigError(problem((section,), f"it should hold tables, [{section}.NAME]", where))
    names: dict[str, str] = {}
    found: dict[str, Model] = {}
    wrong: list[str] = []
    for name, value in table.items():
        try:
            namespace = _namespace(name, (section, name), names, where)
            found[namespace] = validated(model, value, where, (section, name))
        except ConfigError as error:
            wrong += error.problems
    if wrong:
        raise ConfigError(*wrong)
    return found


def servers_from_mcp_json(path: Path, unusable: dict[str, str] | None = None) -> dict[str, ServerConfig]:
    """The servers of an mcpServers file, as Claude Code, Cursor and others keep it, by namespace.

    Keys that are only those programs' concern are passed over. A server that is disabled there is left out. One that
    can't be used here is told in *unusable*, or without it raised.
    """
    text = read_text(path, MAX_FILE)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: it is not JSON: {error}") from None
    table = document.get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: it has no object mcpServers")

    def where(_: Setting) -> str:
        return str(path)

    names: dict[str, str] = {}
    servers: dict[str, ServerConfig] = {}
    for name, value in table.items():
        try:
            if not (isinstance(value, dict) and value.get("disabled") is True):
                namespace = _namespace(name, ("mcpServers", name), names, where)
                servers[namespace] = _from_mcp_json(("mcpServers", name), value, where)
        except ConfigError as error:
            if unusable is None:
                raise
            unusable[name] = str(error)
    return servers


def _from_mcp_json(setting: Setting, value: Any, where: Where) -> ServerConfig:
    if not isinstance(value, dict):
        raise ConfigError(problem(setting, "it should be an object", where))
    kind = value.get("type", "stdio" if "command" in value else "http")
    if kind == "stdio":
        kept = {key: value[key] for key in ("command", "args", "env", "cwd") if key in value}
    elif isinstance(kind, str) and kind.lower() in _HTTP_TYPES:
        kept = {key: value[key] for key in ("url", "headers") if key in value}
    else:
        raise ConfigError(
            problem((*setting, "type"), f"{str(kind)[:40]!r} is not one that can be used: stdio or http", where)
        )
    return validated(ServerConfig, _references(kept), where, setting)


def _references(value: Any) -> Any:
    """An mcpServers file's `${NAME}` and `${NAME:-default}` as the references of this module."""
    if isinstance(value, str):
        return _FOREIGN_REFERENCE.sub(r"${env:\1\2}", value)
    if isinstance(value, list):
        return [_references(item) for item in value]
    if isinstance(value, dict):
        return {key: _references(item) for key, item in value.items()}
    return value


def read_text(path: Path, limit: int) -> str:
    """An ordinary file's text, of *limit* bytes at most. A pipe or a device is none: its end may never come."""
    try:
        data = read_bounded(path, limit, links=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"{path}: it can't be read: {reason}") from None
    if len(data) > limit:
        raise ConfigError(f"{path}: it is larger than {limit} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: it is not UTF-8 text") from None


def validated(model: type[Model], value: Any, where: Where, setting: Setting) -> Model:
    """*value* as the model, or messages that name the settings and never quote what they hold."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise ConfigError(*problems(error, model, where, setting)) from None


def namespace_of(name: Any) -> str:
    """What the tools of a server of that name are called by, if they can be called by it."""
    return re.sub(r"[^a-z0-9_]", "_", str(name).lower())


def _namespace(name: Any, setting: Setting, names: dict[str, str], where: Where) -> str:
    made = namespace_of(name)
    try:
        check_namespace(made)
    except BadName as error:
        raise ConfigError(problem(setting, str(error), where)) from None
    if made in NAMESPACES:
        raise ConfigError(problem(setting, f"{made} is a namespace of go-ent itself: rename it", where))
    if made in names:
        raise ConfigError(
            problem(
                setting, f"its tools would be called {made}.…, and so would those of {names[made]}; rename one", where
            )
        )
    names[made] = dotted(setting)
    return made


class Scrubber:
    """Takes secrets out of text. Holds their values, so it never shows itself."""

    LEAST = 4  # shorter values are words of any message, and no secrets

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = frozenset(secrets)
        forms = set()
        for secret in self._secrets:
            for form in (secret, *secret.splitlines()):
                if len(form) >= self.LEAST:
                    forms |= {form, quote(form), quote(form, safe=""), json.dumps(form)[1:-1], repr(form)[1:-1]}
        self._forms = sorted(forms, key=len, reverse=True)  # the longest first: one may hold another
        self._written = [json.dumps(form, ensure_ascii=False)[1:-1] for form in self._forms]

    def adding(self, secrets: Iterable[str]) -> Scrubber:
        """One that takes those out too."""
        return Scrubber(self._secrets | set(secrets))

    @property
    def reach(self) -> int:
        """The longest that a secret may be: what must be kept beyond a cut so that none is cut in two."""
        return len(self._forms[0]) if self._forms else 0

    def __call__(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, "[secret]")
        return text

    def through(self, value: Any) -> Any:
        """The same for all texts in JSON data, the names in it too."""
        if not self._forms or isinstance(value, bool | int | float | None):
            return value
        text = to_json(value).decode()
        return self._through(value) if any(form in text for form in self._written) else value

    def _through(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {self(str(key)): self._through(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self._through(one) for one in value]
        return self(value) if isinstance(value, str) else value

    def __repr__(self) -> str:
        return f"<Scrubber of {len(self._forms)}>"
