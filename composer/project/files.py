"""Where a project keeps its state, and what of it may be opened."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from go_ent.files import TEMPORARY, locked, open_ordinary, read_bounded, sync_folder, write_new, write_whole
from go_ent.sandbox.worker.paths import users_folder

__all__ = [
    "IGNORED",
    "STATE",
    "TEMPORARY",
    "check_folder",
    "find_project",
    "ignore_state",
    "locked",
    "open_ordinary",
    "read_bounded",
    "sync_folder",
    "user_data",
    "write_new",
    "write_whole",
]

STATE = ".go-ent"


def find_project(start: Path | str = ".") -> Path:
    """The nearest folder at or above *start* with a `.go-ent` in it; *start* itself if there is none."""
    start = Path(start).resolve()
    return next((folder for folder in (start, *start.parents) if (folder / STATE).is_dir()), start)


def user_data() -> Path:
    """The user's own folder, for what is not a project's."""
    return users_folder("GO_ENT_DATA", "XDG_DATA_HOME", ".local/share")


# Of a state folder, what is not to be committed with its project: everything but tools, settings, prompts and skills.
IGNORED = tuple("journal/ executions/ workflows/ loops/ drafts/ *.db* .*.db* .lock .*.lock .tmp-*".split())


def ignore_state(state: Path) -> bool:
    """Keep what is not to be committed out of a project's repository, if nobody has said what that is. Whether that
    was done now.
    """
    path = state / ".gitignore"
    if state.name != STATE or os.path.lexists(path):
        return False
    try:
        with open(path, "x", opener=_not_through_links) as file:
            file.write("".join(f"{line}\n" for line in IGNORED))
        return True
    except OSError:
        return False


def _not_through_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_EXCL, 0o644)


def check_folder(folder: Path) -> None:
    """Refuse a folder of a project's state that is a link, or in one: a project comes from elsewhere, and a link may
    lead anywhere.
    """
    if folder.is_symlink() or folder.parent.is_symlink():
        raise OSError(errno.ELOOP, f"{folder} is a link, or in one, and state is written only where it is")
