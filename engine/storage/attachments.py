"""What is kept beside an execution's journal: a folder of files that are never written over."""

from __future__ import annotations

import errno
import os
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path

from go_ent.composer.project.files import locked, read_bounded, write_new
from go_ent.engine.core.errors import BadState


class FileAttachments:
    """`Attachments` in a folder, which is made when one is added."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def where(self) -> str:
        return str(self.folder)

    def names(self, most: int) -> list[str]:
        self._no_link()
        try:
            with os.scandir(self.folder) as entries:
                return [entry.name for entry in islice(entries, most + 1)]
        except FileNotFoundError:
            return []

    def read(self, name: str, most: int) -> bytes:
        return read_bounded(self.folder / name, most)

    def add(self, name: str, data: bytes) -> None:
        write_new(self.folder / name, data, mode=0o600)

    def alone(self) -> AbstractContextManager[None]:
        self._make()
        return locked(self.folder / ".lock")

    def prepare(self) -> None:
        self._make()
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _make(self) -> None:
        self._no_link()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _no_link(self) -> None:
        if self.folder.is_symlink():
            raise BadState(f"{self.folder} is a link, and a chain is kept only where it is")
