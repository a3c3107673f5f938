"""What a command will need, started before the command line is imported: that takes as long as the start does."""

from __future__ import annotations

import contextlib
import gc

HELP = {"--help", "-h"}


def start_workers(arguments: list[str]) -> None:
    """For a command that runs code: start what makes workers, if the image is there.

    Whatever is wrong here, the command itself finds out and says.
    """
    if HELP & set(arguments) or not (arguments[:1] in (["exec"], ["shell"]) or arguments[:2] == ["tool", "run"]):
        return
    gc.set_threshold(50_000, 10, 10)  # imports make no garbage, and looking for it takes a twentieth of the command
    with contextlib.suppress(Exception):
        from go_ent.composer.project.files import find_project
        from go_ent.composer.project.image import ready_image
        from go_ent.composer.project.trust import is_trusted
        from go_ent.sandbox import warm

        project = find_project(".")
        image = ready_image(project, trusted=is_trusted(project))
        if image is not None:
            warm(image, "fuel" if any(argument.startswith("--fuel") for argument in arguments) else "plain")
