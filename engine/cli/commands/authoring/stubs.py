"""`go-ent stubs`: the tools of a project as typed Python, or as TypeScript."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from go_ent.composer import Composer
from go_ent.composer.catalogue.catalogue import show
from go_ent.composer.catalogue.client_module import client_module
from go_ent.composer.project.files import write_whole
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.commands.exec import language_of
from go_ent.engine.cli.commands.recorded import with_composer
from go_ent.engine.cli.commands.tool import StubLanguage
from go_ent.engine.cli.terminal.output import say
from go_ent.engine.cli.terminal.output import show as show_text


def stubs_command(
    *,
    python: Annotated[
        bool, Parameter(negative="", help="A module for programs: typed clients, sync and async, that mypy accepts.")
    ] = False,
    language: StubLanguage = None,
    output: Annotated[Path | None, Parameter(help="Write to this file instead of stdout.")] = None,
) -> int:
    """Print typed stubs of the granted tools that are known: as code in the sandbox sees them, or --python as a module
    for your own programs. No server is started whose tools are known.

    Example: go-ent stubs -l ts --output tools.d.ts
    """
    spoken = language_of(language, None)
    if python and spoken != "python":
        raise UsageError("--python writes a module in Python: leave out -l")
    if output is not None and not output.parent.is_dir():
        raise UsageError(f"--output {output}: there is no folder {output.parent}")

    async def work(composer: Composer) -> int:
        specs = await composer.catalogue.tools(composer.grants)
        text = client_module(specs) if python else show(specs, "stubs", language=spoken)
        if output is None:
            show_text(text.rstrip("\n"))
            return 0
        await asyncio.to_thread(write_whole, output, text.encode())
        say(f"{output}: {len(specs)} tool{'' if len(specs) == 1 else 's'}")
        return 0

    return with_composer(work, quiet=True)
