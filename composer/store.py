"""The files of composed tools: one readable file each, and every version there ever was.

    composed-tools/triage.py                              what is current
    composed-tools/.history/triage/000003-1f2e….py        its versions

A version is in the history before it becomes current. So whatever a crash leaves behind, every version that was
acknowledged is there, and a file is whole or not there at all.
"""

from __future__ import annotations

import os
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from composer import toolfile
from composer.errors import ComposeRefused, StoreError
from composer.folders import TEMPORARY, locked, read_bounded, sync_folder, write_whole
from composer.toolfile import MAX_BYTES, NAME, ToolFile, check_name

StoreScope = Literal["project", "global"]
VERSION_FILE = re.compile(r"(\d{6,9})-([0-9a-f]{16})\.py")


def already_there(scope: StoreScope) -> str:
    """Why a tool is not saved that was not to replace another."""
    whose = "this project" if scope == "project" else "the user's own store"
    return f"{whose} has another tool of that name: rename one of them, or replace it (--replace; replace=True in a program)"


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a tool, in the history."""

    number: int
    digest: str  # the first 16 digits
    path: Path
    saved: float


@dataclass(frozen=True, slots=True)
class Found:
    """A file in the store as it is now; not yet known to be a tool."""

    name: str
    path: Path
    stamp: tuple[int, int, int]  # changes when the file does


class Store:
    """A folder of composed tools. Made on the first write. Safe with any number of processes at once."""

    def __init__(self, folder: Path, scope: StoreScope) -> None:
        self.folder = folder
        self.scope: StoreScope = scope

    def scan(self) -> dict[str, Found]:
        """The files there are. One whose name is no tool's is not one; it is in `strangers`."""
        self._check()
        found: dict[str, Found] = {}
        try:
            entries = sorted(os.scandir(self.folder), key=lambda entry: entry.name)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StoreError(f"{self.folder} can't be read: {error.strerror}") from None
        for entry in entries:
            stem, suffix = os.path.splitext(entry.name)
            if suffix == ".py" and NAME.fullmatch(stem):
                try:
                    stat = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # removed in between
                found[stem] = Found(stem, Path(entry.path), (stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return found

    def find(self, name: str) -> Found | None:
        """The file of one tool, if it is there."""
        path = self._current(name)
        try:
            stat = path.lstat()
        except OSError:
            return None
        return Found(name, path, (stat.st_mtime_ns, stat.st_size, stat.st_ino))

    def strangers(self) -> list[str]:
        """Python files in the folder that can't be tools, because of their names."""
        try:
            self._check()
            names = sorted(os.listdir(self.folder))
        except (OSError, StoreError):  # which `scan` tells of
            return []
        return [name for name in names if name.endswith(".py") and not name.startswith(".") and not NAME.fullmatch(name[:-3])]

    def read(self, name: str) -> ToolFile | None:
        """The current file of a tool; ComposeRefused if it is not a tool's file."""
        path = self._current(name)
        try:
            return toolfile.read(read_bounded(path, MAX_BYTES), name)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ComposeRefused(name, [f"its file can't be read: {error.strerror or error}"]) from None

    def versions(self, name: str) -> list[Version]:
        """Every version of a tool, the oldest first; also of one that was removed."""
        found = []
        try:
            entries = list(os.scandir(self._history(name)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StoreError(f"the history of {name} can't be read: {error.strerror}") from None
        for entry in entries:
            match = VERSION_FILE.fullmatch(entry.name)
            if match and entry.is_file(follow_symlinks=False):
                found.append(Version(int(match[1]), match[2], Path(entry.path), entry.stat().st_mtime))
        return sorted(found, key=lambda version: version.number)

    def version(self, name: str, number: int) -> ToolFile:
        """An earlier version's file."""
        versions = self.versions(name)
        for version in versions:
            if version.number == number:
                file = toolfile.read(read_bounded(version.path, MAX_BYTES), name)
                if not file.digest.startswith(version.digest):
                    raise StoreError(f"version {number} of {name} is damaged: {version.path} is not what was saved; take another")
                return file
        known = ", ".join(str(version.number) for version in versions) or "none"
        raise StoreError(f"{name} has no version {number}; it has {known}")

    def save(self, file: ToolFile, *, replace: bool = True) -> tuple[Version, bool]:
        """Make *file* the current version of its tool; whether that is a new version. The same content again is none.

        Without *replace*, another tool of that name is left alone, and `ComposeRefused` says so.
        """
        with self._alone():
            versions = self.versions(file.name)
            try:
                now = self.read(file.name)
            except ComposeRefused:
                now = None
            if not replace and self.find(file.name) is not None and (now is None or now.digest != file.digest):
                raise ComposeRefused(file.name, [already_there(self.scope)])
            if now is not None and now.digest == file.digest and versions:
                same = [version for version in versions if version.digest == file.digest[:16]]
                if same:
                    return same[-1], False
            return self._write(file, versions), True

    def adopt(self, file: ToolFile) -> Version:
        """Record a file that was edited by hand as a version. If it has changed again meanwhile, the next look will see."""
        with self._alone():
            versions = self.versions(file.name)
            same = [version for version in versions if version.digest == file.digest[:16]]
            now = self.read(file.name)
            if now is None or now.digest != file.digest:
                return same[-1] if same else Version(0, file.digest[:16], self._current(file.name), 0.0)
            if same and versions[-1] is same[-1]:
                return same[-1]
            return self._write(file, versions)

    def remove(self, name: str) -> None:
        """Remove a tool; its versions stay in the history."""
        with self._alone():
            try:
                os.unlink(self._current(name))
            except FileNotFoundError:
                raise StoreError(f"there is no composed tool {name} in the {self.scope} store") from None
            sync_folder(self.folder)

    def rollback(self, name: str, number: int) -> Version:
        """Bring an earlier version back, as a new version with its content."""
        file = self.version(name, number)
        with self._alone():
            try:
                now = self.read(name)
            except ComposeRefused:
                now = None
            versions = self.versions(name)
            if now is not None and now.digest == file.digest and versions[-1].digest == file.digest[:16]:
                return versions[-1]  # it is what is current
            return self._write(file, versions)

    def _write(self, file: ToolFile, versions: list[Version]) -> Version:
        number = versions[-1].number + 1 if versions else 1
        versioned = file.with_version(number)
        history = self._history(file.name)
        if not history.is_dir():
            history.mkdir(parents=True, exist_ok=True)
            sync_folder(history.parent)
        self._sweep(history)
        path = history / f"{number:06d}-{file.digest[:16]}.py"
        data = versioned.source.encode()
        write_whole(path, data)
        write_whole(self._current(file.name), data)
        return Version(number, file.digest[:16], path, path.stat().st_mtime)

    def _sweep(self, history: Path) -> None:
        """Remove what a writer that was killed left behind: nobody else writes now."""
        for folder in (history, self.folder):
            for entry in os.scandir(folder):
                if entry.name.startswith(TEMPORARY) and entry.is_file(follow_symlinks=False):
                    os.unlink(entry.path)

    def _check(self) -> None:
        """A project comes from elsewhere, and a link in it may lead anywhere. The user's own folder is where they want it."""
        if self.scope == "project" and (self.folder.is_symlink() or self.folder.parent.is_symlink()):
            raise StoreError(f"{self.folder} is a link, or in one: a project has its composed tools in a folder of its own")

    def _current(self, name: str) -> Path:
        self._check()
        return self.folder / f"{check_name(name)}.py"

    def _history(self, name: str) -> Path:
        self._check()
        history = self.folder / ".history" / check_name(name)
        for folder in (history.parent, history):
            if folder.is_symlink():
                raise StoreError(f"{folder} is a link, and the history is kept only where it is")
        return history

    def _alone(self) -> AbstractContextManager[None]:
        self._check()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            return locked(self.folder / ".lock")
        except OSError as error:
            raise StoreError(f"{self.folder} can't be written: {error.strerror}") from None
