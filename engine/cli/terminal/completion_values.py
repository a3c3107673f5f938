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
    import tomllib

    try:
        written = tomllib.loads(read_bounded(find_project() / STATE / "config.toml", MOST_BYTES).decode())
    except (OSError, ValueError, RecursionError):
        return []
    sections = [written.get(section) for section in ("servers", "openapi")]
    return sorted(name for section in sections if isinstance(section, dict) for name in section)[:MOST]


def any_tool_names(context: Any) -> list[str]:
    """Composed tools, and the tools of servers that are known."""
    from go_ent.composer.sources.kept_names import kept_names

    project = find_project()
    upstream = [name for server in server_names(context) for name in kept_names(project, server)]
    return sorted([*tool_names(context), *upstream])[:MOST]


AnyToolName = Annotated[str, Parameter(help="The name of a tool, with its namespace.", completer=any_tool_names)]
ServerName = Annotated[str, Parameter(help="The name of a server or an API.", completer=server_names)]
ToolName = Annotated[str, Parameter(help="The name of a composed tool.", completer=tool_names)]
