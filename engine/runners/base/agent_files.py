"""The files of a folder that agent programs take hooks, plugins, servers and variables from, and start or use
without a question.
"""

from __future__ import annotations

import os
from pathlib import Path

OBEYED = (
    ".claude",
    ".mcp.json",
    ".opencode",
    "opencode.json",
    "opencode.jsonc",
    "bunfig.toml",
    ".env",
    ".env.local",
    ".env.production",
)


def obeyed(project: Path) -> list[str]:
    """Those that agents would find when they work in *project*: they look in the folders above it too, up to the
    repository's.

    A name is one of the project itself, a path one above it. What is in the user's own folder is the user's.
    """
    project, home = project.absolute(), Path(os.path.expanduser("~"))
    found: list[str] = []
    for folder in (project, *project.parents):
        if folder == home and folder != project:
            break
        found += [
            name if folder == project else str(folder / name) for name in OBEYED if os.path.lexists(folder / name)
        ]
        if (folder / ".git").exists():
            break
    return found
