"""Names that the Tab key completes: tools, servers and executions. Read from folders; nothing is started.

What reads them with care takes longer to import than a person waits for a key. Only names are wanted here, and a wrong
one is merely offered.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import Annotated, Any

from cyclopts import Parameter

from go_ent.composer.project.files import STATE, find_project, read_bounded, user_data

MOST = 200
MOST_BYTES = 1 << 20  # of a configuration
TOOL_FILE = re.compile(r"[a-z][a-z0-9_]*\.(py|js|ts)")


def tool_names(context: Any) -> list[str]:
    """The composed tools of the project and of the user."""
    found: set[str] = set()
    for folder in (find_project() / STATE, user_data()):
        with contextlib.suppress(OSError):
            found |= {name[:-3] for name in os.listdir(folder / "composed-tools") if TOOL_FILE.fullmatch(name)}
    return sorted(found)[:MOST]


def execution_ids(context: Any) -> list[str]:
    """The short ids of the project's executions, the newest first, and `last`."""
    from go_ent.engine.storage.newest import newest_ids

    found = newest_ids(find_project(), MOST)
    return ["last", *found] if found else []


def server_names(context: Any) -> list[str]:
    """The servers and APIs of the project, whether they are as they should be or not."""
    written = _settings()
    return sorted(name for section in ("servers", "openapi") for name in _section(written, section))[:MOST]


def grant_patterns(context: Any) -> list[str]:
    """What can be granted: all tools of a server, or one."""
    servers = server_names(context)
    return sorted([*(f"{name}.*" for name in servers), *_upstream(servers)])[:MOST]


def granted_patterns(context: Any) -> list[str]:
    """What is granted, as it is written."""
    allowed = _section(_settings(), "grants").get("allow")
    return [name for name in allowed if isinstance(name, str)][:MOST] if isinstance(allowed, list) else []


def _settings() -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(read_bounded(find_project() / STATE / "config.toml", MOST_BYTES).decode())
    except (OSError, ValueError, RecursionError):
        return {}


def _section(settings: dict[str, Any], name: str) -> dict[str, Any]:
    found = settings.get(name)
    return found if isinstance(found, dict) else {}


def _upstream(servers: list[str]) -> list[str]:
    """The tools that servers had when they were last asked."""
    from go_ent.composer.sources.kept_names import kept_names

    project = find_project()
    return [name for server in servers for name in kept_names(project, server)]


def any_tool_names(context: Any) -> list[str]:
    """Composed tools, and the tools of servers that are known."""
    return sorted([*tool_names(context), *_upstream(server_names(context))])[:MOST]


AnyToolName = Annotated[str, Parameter(help="The name of a tool, with its namespace.", completer=any_tool_names)]
ServerName = Annotated[str, Parameter(help="The name of a server or an API.", completer=server_names)]
ToolName = Annotated[str, Parameter(help="The name of a composed tool.", completer=tool_names)]
