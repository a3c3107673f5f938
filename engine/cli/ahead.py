"""What a command will need, started before the command line is imported: that takes as long as the start does."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from types import ModuleType
from typing import Any

HELP = {"--help", "-h"}
LONG = {"serve", "console", "worker", "run", "workflow", "loop", "resume"}  # what they leave is to be collected


def start_workers(arguments: list[str]) -> None:
    """Have imports cost little; for a command that runs code, start what makes workers, if the image is there.

    Whatever is wrong here, the command itself finds out and says.
    """
    if _is_ours(sys.argv[0]):
        _leave_plugins_alone()
    if arguments[:1] and arguments[0] not in LONG:
        gc.set_threshold(150_000, 10, 10)  # imports make no garbage, and looking for it takes a twentieth of them
    if HELP & set(arguments) or not _runs_code(arguments):
        return
    with contextlib.suppress(Exception):
        from go_ent.composer.project.files import find_project
        from go_ent.composer.project.image import ready_image
        from go_ent.composer.project.trust import is_trusted
        from go_ent.sandbox import warm

        project = find_project(".")
        image = ready_image(project, trusted=is_trusted(project))
        if image is not None:
            warm(image, "fuel" if any(argument.startswith("--fuel") for argument in arguments) else "plain")


def _is_ours(program: str) -> bool:
    """Whether this process is the command, and not another program that imports it."""
    return os.path.basename(program) == "go-ent" or program.endswith("/go_ent/__main__.py")


def _leave_plugins_alone() -> None:
    """pydantic looks for plugins among all that is installed when it builds the first model, which takes as long as
    everything else that it does for a command. Here there are none, as if `PYDANTIC_DISABLE_PLUGINS` said so.
    """
    loader: Any = ModuleType("pydantic.plugin._loader")
    loader.get_plugins = tuple
    sys.modules[loader.__name__] = loader


def _runs_code(arguments: list[str]) -> bool:
    """A server of another folder's project finds out by itself which image that has."""
    if arguments[:1] == ["serve"]:
        return not any(argument.startswith("--project") for argument in arguments)
    return arguments[:1] in (["exec"], ["shell"]) or arguments[:2] == ["tool", "run"]
