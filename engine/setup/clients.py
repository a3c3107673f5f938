"""The MCP clients that are known: where each keeps its servers, and what an entry of it looks like."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from go_ent.dataclass import dataclass

Client: TypeAlias = Literal[
    "claude", "claude-desktop", "codex", "cursor", "gemini", "opencode", "vscode", "windsurf", "zed"
]
Scope: TypeAlias = Literal["project", "user"]
Json: TypeAlias = dict[str, Any]

CLIENTS: tuple[Client, ...] = get_args(Client)
TITLES: dict[Client, str] = {
    "claude": "Claude Code",
    "claude-desktop": "Claude Desktop",
    "codex": "Codex",
    "cursor": "Cursor",
    "gemini": "Gemini CLI",
    "opencode": "opencode",
    "vscode": "VS Code",
    "windsurf": "Windsurf",
    "zed": "Zed",
}
USERS_ONLY: frozenset[Client] = frozenset(("claude-desktop", "windsurf"))  # they know no servers of a project
SECTIONS: dict[Client, str] = {
    "codex": "mcp_servers",
    "opencode": "mcp",
    "vscode": "servers",
    "zed": "context_servers",
}
TYPED: frozenset[Client] = frozenset(("claude", "cursor", "vscode"))  # their entries say how a server is reached


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client keeps its servers. A link may lead anywhere below *base*, and not out of it."""

    base: Path
    file: Path
    section: str


def entry_of(client: Client | None, program: Path, arguments: list[str]) -> Json:
    """What a client needs to start a program; without a client, what most of them read."""
    if client == "opencode":
        return {"type": "local", "command": [str(program), *arguments]}
    entry = {"command": str(program), "args": arguments}
    return {"type": "stdio", **entry} if client in TYPED else entry


def default_scope(client: Client) -> Scope:
    return "user" if client in USERS_ONLY else "project"


def place_of(client: Client, scope: Scope, project: Path, environment: Mapping[str, str]) -> Place:
    """Where *client* looks for its servers, on Linux."""
    home = Path(environment.get("HOME") or Path.home())
    settings = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    base, inside = (
        (project, _of_project(client, project)) if scope == "project" else _of_user(client, home, settings, environment)
    )
    return Place(base, base / inside, SECTIONS.get(client, "mcpServers"))


def _of_project(client: Client, project: Path) -> Path:
    files: dict[Client, str] = {
        "claude": ".mcp.json",
        "codex": ".codex/config.toml",
        "cursor": ".cursor/mcp.json",
        "gemini": ".gemini/settings.json",
        "vscode": ".vscode/mcp.json",
        "zed": ".zed/settings.json",
    }
    return _opencode(project) if client == "opencode" else Path(files[client])


def _of_user(client: Client, home: Path, settings: Path, environment: Mapping[str, str]) -> tuple[Path, Path]:
    match client:
        case "claude":
            return Path(environment.get("CLAUDE_CONFIG_DIR") or home), Path(".claude.json")
        case "codex":
            return Path(environment.get("CODEX_HOME") or home / ".codex"), Path("config.toml")
        case "opencode":
            return settings, "opencode" / _opencode(settings / "opencode")
    below_home: dict[Client, str] = {
        "cursor": ".cursor/mcp.json",
        "gemini": ".gemini/settings.json",
        "windsurf": ".codeium/windsurf/mcp_config.json",
    }
    below_settings: dict[Client, str] = {
        "claude-desktop": "Claude/claude_desktop_config.json",
        "vscode": "Code/User/mcp.json",
        "zed": "zed/settings.json",
    }
    if client in below_home:
        return home, Path(below_home[client])
    return settings, Path(below_settings[client])


def _opencode(folder: Path) -> Path:
    """opencode reads either; one that is there is not joined by another."""
    plain, commented = folder / "opencode.json", folder / "opencode.jsonc"
    return Path((commented if os.path.lexists(commented) and not os.path.lexists(plain) else plain).name)
