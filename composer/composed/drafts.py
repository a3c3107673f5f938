"""Drafts of composed tools: files that are being written, in `.go-ent/drafts/`. Nothing calls a draft."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from go_ent.composer.composed.toolfile import MAX_BYTES, NAME, check_name
from go_ent.composer.errors import StoreError
from go_ent.composer.project.files import STATE, check_folder, ignore_state, read_bounded, write_whole
from go_ent.sandbox.worker.languages import SUFFIXES, Language

FOLDER = "drafts"


class Drafts:
    """The drafts of a project. A project comes from elsewhere, and an editor writes through links: so no link is a
    draft, or leads to one.
    """

    def __init__(self, project: Path) -> None:
        self.folder = project / STATE / FOLDER

    def path(self, name: str, language: Language = "python") -> Path:
        """Where the draft of a tool is, or would be in that language. `StoreError` for what an editor should not be
        given.
        """
        check_name(name)
        paths = [self.folder / f"{name}{suffix}" for suffix in SUFFIXES.values()]
        path = self.folder / f"{name}{SUFFIXES[language]}"
        try:
            check_folder(self.folder)
            path = next((path for path in paths if os.path.lexists(path)), path)
            mode = path.lstat().st_mode
        except FileNotFoundError:
            return path
        except OSError as error:
            raise StoreError(str(error.strerror or error)) from None
        if not stat.S_ISREG(mode) or path.stat().st_nlink > 1:
            raise StoreError(f"{path} is not an ordinary file of its own, but a link or worse: remove it")
        return path

    def read(self, name: str) -> str | None:
        """The text of a draft, or None."""
        path = self.path(name)
        try:
            data = read_bounded(path, MAX_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{path} can't be read: {error.strerror or error}") from None
        if len(data) > MAX_BYTES:
            raise StoreError(f"{path} is larger than {MAX_BYTES} bytes, which no tool's file may be")
        return data.decode("utf-8", "surrogateescape")

    def write(self, name: str, source: str, language: Language = "python") -> Path:
        """Write a draft wholly, over the one that is there."""
        path = self.path(name, language)
        try:
            self.folder.parent.mkdir(exist_ok=True)
            ignore_state(self.folder.parent)
            self.folder.mkdir(exist_ok=True)
            check_folder(self.folder)
            write_whole(path, source.encode("utf-8", "surrogateescape"))
        except OSError as error:
            raise StoreError(f"{path} can't be written: {error.strerror or error}") from None
        return path

    def remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self.path(name))

    def names(self) -> list[str]:
        """The names of tools that have drafts."""
        try:
            check_folder(self.folder)
            found = {name[:-3] for name in os.listdir(self.folder) if name.endswith(tuple(SUFFIXES.values()))}
            return sorted(name for name in found if NAME.fullmatch(name))
        except OSError:
            return []
