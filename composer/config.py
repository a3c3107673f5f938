"""A project's `.go-ent/config.toml`, as far as tools are concerned."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from composer.errors import BadName, ConfigError
from composer.folders import STATE, read_bounded
from composer.grants import Grants
from composer.trust import trusts_all
from sandbox import LimitError, Limits

if TYPE_CHECKING:
    from composer.openapi import OpenApiConfig
    from composer.servers import ServerConfig

MAX_BYTES = 1 << 20
STARTS = {"servers", "mcp_json"}
SECTIONS = {"image", "grants", "limits", "servers", "openapi", "mcp_json"}
# Read by what is built upon this.
OTHERS = frozenset({"engine", "runners", "commands", "roles", "budget", "prices", "executions", "context"})


@dataclass(frozen=True, slots=True)
class Config:
    """What a project says of its tools. Without a file: nothing is granted but composed tools, and limits are the sandbox's."""

    allow: tuple[str, ...] = ()
    approve: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    servers: dict[str, ServerConfig] = field(default_factory=dict)
    apis: dict[str, OpenApiConfig] = field(default_factory=dict)

    @property
    def grants(self) -> Grants:
        return Grants(self.allow, self.approve, top_level=True)


def read_table(project: Path) -> dict[str, Any]:
    """The whole file, as TOML has it; empty without one."""
    path = project / STATE / "config.toml"
    try:
        data = read_bounded(path, MAX_BYTES, links=True)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_BYTES} bytes")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def read_config(project: Path, also: frozenset[str] = OTHERS) -> Config:
    """The project's configuration. *also* are sections that others read."""
    path = project / STATE / "config.toml"
    table = read_table(project)
    if (table.keys() & STARTS) and not trusts_all():
        _check_owner(path)
    unknown = sorted(set(table) - SECTIONS - also)
    if unknown:
        raise ConfigError(f"{path}: there is no setting {', '.join(unknown)}; there are {', '.join(sorted(SECTIONS | also))}")
    return _config(table, path, project)


def _check_owner(path: Path) -> None:
    """Another user's configuration, found in a folder above, must not start programs as this one."""
    for found in (path, path.parent):
        stat = found.stat()
        if stat.st_uid not in (os.getuid(), 0) or stat.st_mode & 0o002:
            raise ConfigError(
                f"{found} belongs to another user, or anybody may write to it, and the configuration starts programs: "
                "change its owner and mode, or set GO_ENT_TRUST_PROJECT=1 if you know what it says"
            )


def _config(table: dict[str, Any], path: Path, project: Path) -> Config:
    grants = _table(table, "grants", path, {"allow", "approve"})
    lists = {}
    for name in ("allow", "approve"):
        value = grants.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ConfigError(f'{path}: grants.{name} must be a list of names like ["github.*"]')
        lists[name] = tuple(value)
    try:
        Grants(lists["allow"], lists["approve"])
    except BadName as error:
        raise ConfigError(f"{path}: grants: {error}") from None
    try:
        limits = Limits(**_table(table, "limits", path, set(Limits.model_fields)))
    except (LimitError, TypeError) as error:
        raise ConfigError(f"{path}: limits: {error}") from None
    servers: dict[str, ServerConfig] = {}
    apis: dict[str, OpenApiConfig] = {}
    if "servers" in table or "mcp_json" in table:
        from composer.servers import servers_from_mcp_json, servers_from_table

        servers.update(servers_from_table(_table(table, "servers", path), f"{path}: servers"))
        for name in _names(table.get("mcp_json", []), path):
            for namespace, server in servers_from_mcp_json(project / name).items():
                if namespace in servers:
                    raise ConfigError(f"{path}: the server {namespace} is both here and in {name}; rename one")
                servers[namespace] = server
    if "openapi" in table:
        from composer.openapi import apis_from_table

        apis.update(apis_from_table(_table(table, "openapi", path), f"{path}: openapi", project))
    return Config(lists["allow"], lists["approve"], limits, servers, apis)


def _table(table: dict[str, Any], name: str, path: Path, known: set[str] | None = None) -> dict[str, Any]:
    found = table.get(name, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: {name} must be a table: [{name}]")
    unknown = sorted(set(found) - known) if known is not None else []
    if unknown:
        raise ConfigError(f"{path}: there is no setting {name}.{unknown[0]}; there are {', '.join(sorted(known or ()))}")
    return found


def _names(value: Any, path: Path) -> list[str]:
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f'{path}: mcp_json must be a file name or a list of them, like [".mcp.json"]')
    return value
