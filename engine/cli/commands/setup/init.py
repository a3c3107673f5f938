"""`go-ent init`: make a project of a folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from go_ent.composer.project.files import STATE
from go_ent.engine.cli import SETUP_ERROR
from go_ent.engine.cli.commands.setup.first_questions import ask_about_clients, ask_about_servers
from go_ent.engine.cli.terminal.ask import at_terminal
from go_ent.engine.cli.terminal.output import say, show_json
from go_ent.engine.cli.terminal.progress import QuietFlag, image_ready
from go_ent.engine.setup.init_project import FIRST, TOOLS, begin_files, begin_tools
from go_ent.sandbox import SandboxError

ABOUT = {
    "config.toml": "every setting, commented out",
    "config.schema.json": "for editors",
    ".gitignore": "what is not to be committed",
    f"{FIRST}.py": "a first tool, with examples",
}


def init_command(
    folder: Annotated[Path, Parameter(help="The folder; created if it does not exist.")] = Path(),
    /,
    *,
    json_: Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")] = False,
    quiet: QuietFlag = False,
) -> int:
    """Make a project of a folder: a commented `.go-ent/config.toml`, a first composed tool, and what git should ignore.

    What is there already is left as it is; what is missing is added. On a terminal it asks two questions: which agent
    programs to connect, and which of their MCP servers to import.
    """
    begun = begin_files(folder)
    if not json_:
        say(str(begun.project))
    with contextlib.suppress(SandboxError):  # the tool meets the same, and tells it
        image_ready(begun.project, quiet=quiet or json_)
    asyncio.run(begin_tools(begun))
    here = "" if os.path.samefile(begun.project, ".") else f"cd {shlex.quote(str(folder))} && "
    has_first = (begun.project / STATE / TOOLS / f"{FIRST}.py").exists()
    first = f'go-ent tool run {FIRST} "to be or not to be"' if has_first else "go-ent tool list"
    commands = [f"{here}{command}" for command in (first, "go-ent config check", "go-ent install claude")]
    code = SETUP_ERROR if begun.failed else 0
    if json_:
        found = {"made": begun.made, "kept": begun.kept, "failed": begun.failed, "notes": begun.notes}
        show_json({"project": str(begun.project), **found, "next": commands})
        return code
    width = max(map(len, begun.made), default=0)
    for name in begun.made:
        say(f"  made  {name.ljust(width)}  {ABOUT.get(Path(name).name, '')}".rstrip())
    for name in begun.kept:
        say(f"  kept  {name}")
    for name, why in begun.failed.items():
        say(f"  not made: {name}: {why}", err=True)
    for note in begun.notes:
        say(f"note: {note}", err=True)
    if at_terminal() and not quiet:
        ask_about_clients(begun.project)
        ask_about_servers(begun.project)
    say("next:")
    for command in commands:
        say(f"  {command}")
    return code
