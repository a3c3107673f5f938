"""Names that the Tab key completes: tools and executions. Read from folders; nothing is started for it."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from go_ent.composer.project.files import STATE, find_project, user_data

MOST = 200


def tool_names(context: Any) -> list[str]:
    """The composed tools of the project and of the user."""
    from go_ent.composer.composed.store import Store
    from go_ent.composer.errors import StoreError

    found: set[str] = set()
    for folder in (find_project() / STATE / "composed-tools", user_data() / "composed-tools"):
        try:
            found |= Store(folder, "project").scan().keys()
        except StoreError:
            continue
    return sorted(found)[:MOST]


def execution_ids(context: Any) -> list[str]:
    """The short ids of the project's executions, the newest first, and `last`."""
    from go_ent.engine.storage.newest import newest_ids

    found = newest_ids(find_project(), MOST)
    return ["last", *found] if found else []


def server_names(context: Any) -> list[str]:
    """The servers and APIs of the project."""
    from go_ent.composer.config import read_config
    from go_ent.composer.errors import ConfigError

    try:
        config = read_config(find_project())
    except (ConfigError, OSError):
        return []
    return sorted((*config.servers, *config.apis))[:MOST]


def any_tool_names(context: Any) -> list[str]:
    """Composed tools, and the tools of servers that are known."""
    from go_ent.composer.config import read_config
    from go_ent.composer.errors import ConfigError
    from go_ent.composer.known_tools import known_tools

    try:
        config = read_config(find_project())
        found = known_tools(find_project(), config, (*config.servers, *config.apis))
    except (ConfigError, OSError):
        return tool_names(context)
    return sorted(name for names in found.values() for name in names or ())[:MOST]


AnyToolName = Annotated[str, Parameter(help="The name of a tool, with its namespace.", completer=any_tool_names)]
ServerName = Annotated[str, Parameter(help="The name of a server or an API.", completer=server_names)]
ToolName = Annotated[str, Parameter(help="The name of a composed tool.", completer=tool_names)]
