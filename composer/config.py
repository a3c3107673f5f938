"""A project's settings, as far as tools are concerned: `.go-ent/config.toml`, and the environment above it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    create_model,
)

from go_ent.composer.catalogue.grants import Grants, check_pattern
from go_ent.composer.errors import ConfigError
from go_ent.composer.project.layers import CONFIG, Layers, Names, UnreadableSettings, read_layers
from go_ent.composer.project.problems import problem, problems, unknown
from go_ent.composer.project.trust import is_trusted, trusts_all
from go_ent.dataclass import dataclass
from go_ent.sandbox import Limits

if TYPE_CHECKING:
    from go_ent.composer.sources.openapi import OpenApiConfig
    from go_ent.composer.sources.server_config import Expose, ServerConfig, SourceOptions

STARTS = {"servers", "mcp_json"}
# Read by what is built upon this.
OTHERS = frozenset(
    {"engine", "runners", "commands", "roles", "budget", "prices", "executions", "context", "serve", "fleet"}
)


def _requirement(text: str) -> str:
    from go_ent.sandbox.images.packages import REQUIREMENT

    if not REQUIREMENT.fullmatch(text.strip()):
        raise ValueError(f"{text[:100]!r} is not a requirement: write a name with versions, like 'attrs==25.3.0'")
    return text


def _several(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Requirement = Annotated[str, AfterValidator(_requirement)]
Pattern = Annotated[str, AfterValidator(check_pattern)]
_TEXTS = {"type": "array", "items": {"type": "string"}}
Files = Annotated[tuple[str, ...], BeforeValidator(_several), WithJsonSchema({"anyOf": [{"type": "string"}, _TEXTS]})]


Section = TypeVar("Section", bound=BaseModel)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class ImageSection(_Section):
    """What the sandbox's Python has besides the standard library."""

    packages: tuple[Requirement, ...] = Field(
        default=(),
        description="pure-Python packages that code may import; needs `go-ent trust`",
        examples=[["attrs==25.3.0"]],
    )


class GrantsSection(_Section):
    """Which tools code may call. Composed tools are always granted; everything else must be listed."""

    allow: tuple[Pattern, ...] = Field(
        default=(),
        description="tools that code may call: full names, `namespace.*` or `*`; engine.* must be named",
        examples=[["github.*"]],
    )
    approve: tuple[Pattern, ...] = Field(
        default=(),
        description="tools whose every call needs approval; destructive tools always do",
        examples=[["github.create_issue"]],
    )


# `Limits` itself says what is wrong in one text, without saying of which.
LimitsSection: type[BaseModel] = create_model(
    "LimitsSection",
    __config__=ConfigDict(extra="forbid", strict=True, defer_build=True),
    __doc__="What a run may use. A run or a composed tool can narrow a limit. Limits wider than the "
    "defaults need `go-ent trust`.",
    **{name: (field.annotation, field) for name, field in Limits.model_fields.items()},  # type: ignore[call-overload]
)


def section_kinds() -> dict[str, Any]:
    """The type of each section that is read here."""
    from go_ent.composer.sources.openapi import OpenApiConfig
    from go_ent.composer.sources.server_config import ServerConfig

    return {
        "image": ImageSection,
        "grants": GrantsSection,
        "limits": LimitsSection,
        "servers": dict[str, ServerConfig],
        "mcp_json": Files,
        "openapi": dict[str, OpenApiConfig],
    }


SECTIONS = frozenset({"image", "grants", "limits", "servers", "mcp_json", "openapi"})


@dataclass(frozen=True, slots=True)
class Config:
    """What a project says of its tools. Without a file: nothing is granted but composed tools, and limits are the
    sandbox's.
    """

    allow: tuple[str, ...] = ()
    approve: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    servers: dict[str, ServerConfig] = field(default_factory=dict)
    apis: dict[str, OpenApiConfig] = field(default_factory=dict)
    withheld: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Settings of a folder that nobody has trusted which are not in force, and what to say of each."""
    unusable: dict[str, str] = field(default_factory=dict)  # servers in files of mcp_json that can't be used, and why

    @property
    def grants(self) -> Grants:
        return Grants(self.allow, self.approve, top_level=True)

    def exposure(self, name: str) -> Expose:
        """How an MCP client finds the tool of that full name."""
        namespace, _, part = name.partition(".")
        source: SourceOptions | None = self.servers.get(namespace) or self.apis.get(namespace)
        return "code" if source is None else source.exposure(part)


def read_settings(project: Path, names: Names | None = None, environ: Mapping[str, str] | None = None) -> Layers:
    """The settings as they are written: of the file, then of the environment."""
    try:
        return read_layers(project / CONFIG, environ, names)
    except UnreadableSettings as error:
        raise ConfigError(str(error)) from None


def read_config(
    project: Path,
    also: frozenset[str] = OTHERS,
    layers: Layers | None = None,
    trusted: bool | None = None,
    *,
    look: bool = False,
) -> Config:
    """The project's settings for its tools, or `ConfigError` with all that is wrong with them. *also* are sections that
    others read.

    What a folder may not say before it is *trusted* (by default: whether `go-ent trust` was said) is not in force, and
    files that it names are not opened; but they are for a person who wants to *look* at what it says.
    """
    config, wrong = read_partly(project, layers or read_settings(project), also, trusted, look=look)
    if wrong:
        raise ConfigError(*wrong)
    return config


def read_partly(
    project: Path, layers: Layers, also: frozenset[str] = OTHERS, trusted: bool | None = None, *, look: bool = False
) -> tuple[Config, list[str]]:
    """What can be used of the settings, and all that is wrong with the rest."""
    if (layers.of_file.keys() & STARTS) and not trusts_all():
        check_owner(layers.file)
    return _Reading(layers, project, trusted, look=look).config(also)


def check_owner(path: Path) -> None:
    """Another user's configuration, found in a folder above, must not start programs as this one."""
    for found in (path, path.parent):
        if not found.exists():
            continue
        stat = found.stat()
        if stat.st_uid not in (os.getuid(), 0) or stat.st_mode & 0o002:
            raise ConfigError(
                f"{found} belongs to another user, or anybody may write to it, and the configuration starts programs: "
                "change its owner and mode, or set GO_ENT_TRUST_PROJECT=1 if you know what it says"
            )


class _Reading:
    """Each section by itself, so that all that is wrong is told at once."""

    def __init__(self, layers: Layers, project: Path, trusted: bool | None, *, look: bool) -> None:
        self._layers, self._project, self._trusted, self._look = layers, project, trusted, look
        self._table, self._where = layers.table, layers.where
        self._wrong: list[str] = []
        self._unusable: dict[str, str] = {}
        self._withheld: dict[tuple[str, ...], str] = {}

    def _withhold(self, path: tuple[str, ...], said: str) -> bool:
        """Whether a setting is not in force because it is the folder's own, and nobody has trusted the folder."""
        if self._layers.variable(path) is None and self._trusted is None:
            self._trusted = is_trusted(self._project)
        if self._trusted or self._layers.variable(path) is not None:
            return False
        self._withheld[path] = problem(path, f"{said}: nobody has trusted this folder", self._where)
        return True

    def config(self, also: frozenset[str]) -> tuple[Config, list[str]]:
        for name in sorted(set(self._table) - SECTIONS - also):
            self._wrong.append(problem((name,), unknown((name,), SECTIONS | also), self._where))
        image = self._section("image", ImageSection())
        if image.packages:
            self._withhold(("image", "packages"), f"{', '.join(image.packages)} are not in the sandbox")
        grants, limits = self._section("grants", GrantsSection()), self._section("limits", LimitsSection())
        chosen = self._allowed(limits)
        for section in self._layers.of_file.keys() & {"servers", "openapi"}:
            from go_ent.composer.sources.secrets import spelled_out

            self._wrong += [
                problem(path, said, self._where) for path, said in spelled_out(self._layers.of_file, section)
            ]
        servers, apis = self._servers(), self._apis()
        for name in servers.keys() & apis.keys():
            said = f"its tools would be called {name}.…, and so would those of the server {name}; rename one"
            self._wrong.append(problem(("openapi", name), said, self._where))
        limits = Limits(**chosen)
        return Config(grants.allow, grants.approve, limits, servers, apis, self._withheld, self._unusable), self._wrong

    def _allowed(self, limits: BaseModel) -> dict[str, Any]:
        """The limits that are said, without those that are wider than the defaults and not for this folder to say."""
        chosen = {}
        for name in limits.model_fields_set:
            value, default = getattr(limits, name), getattr(Limits(), name)
            wider = default is not None and (value is None or value > default)
            if not (
                wider and self._withhold(("limits", name), f"{value} is wider than the default {default}, which holds")
            ):
                chosen[name] = value
        return chosen

    def _section(self, name: str, default: Section) -> Section:
        try:
            return type(default).model_validate(self._table.get(name, {}))
        except ValidationError as error:
            self._wrong += problems(error, type(default), self._where, (name,))
            return default

    def _servers(self) -> dict[str, ServerConfig]:
        if not self._table.keys() & STARTS:
            return {}
        from go_ent.composer.sources.server_config import servers_from_mcp_json, servers_from_table

        servers: dict[str, ServerConfig] = {}
        try:
            servers |= servers_from_table(self._table.get("servers", {}), self._where)
        except ConfigError as error:
            self._wrong += error.problems
        for at, name in enumerate(self._files()):
            if self._withhold(("mcp_json",), f"servers of {', '.join(self._files())} are not there") and not self._look:
                break
            try:
                found = servers_from_mcp_json(self._project / name, self._unusable)
            except ConfigError as error:
                self._wrong += error.problems
                continue
            for namespace in found.keys() & servers.keys():
                said = f"{name} has a server {namespace}, as there is another of that name; rename one"
                self._wrong.append(problem(("mcp_json", at), said, self._where))
            servers |= found
        return servers

    def _files(self) -> tuple[str, ...]:
        try:
            found: tuple[str, ...] = TypeAdapter(Files).validate_python(self._table.get("mcp_json", []))
            return found
        except ValidationError as error:
            self._wrong += problems(error, Files, self._where, ("mcp_json",))
            return ()

    def _apis(self) -> dict[str, OpenApiConfig]:
        if "openapi" not in self._table:
            return {}
        from go_ent.composer.sources.openapi import apis_from_table

        try:
            return apis_from_table(self._table["openapi"], self._where, self._project)
        except ConfigError as error:
            self._wrong += error.problems
            return {}
