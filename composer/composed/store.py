"""The files of composed tools: one readable file each, and every version there ever was.

    composed-tools/triage.py                              what is current
    composed-tools/.history/triage/000003-1f2e….py        its versions

A tool in JavaScript ends in `.js`, one in TypeScript in `.ts`.

A version is in the history before it becomes current. So whatever a crash leaves behind, every version that was
acknowledged is there, and a file is whole or not there at all.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from contextlib import AbstractContextManager
from pathlib import Path

from go_ent.composer.composed import toolfile
from go_ent.composer.composed.tool_store import Found, StoreScope, Version, already_there, no_version
from go_ent.composer.composed.toolfile import MAX_BYTES, NAME, ToolFile, check_name
from go_ent.composer.errors import ComposeRefused, StoreError
from go_ent.composer.project.files import STATE, TEMPORARY, locked, read_bounded, sync_folder, user_data, write_whole
from go_ent.composer.project.items import apart
from go_ent.dataclass import dataclass
from go_ent.sandbox.worker.languages import SUFFIXES, by_suffix

VERSION_FILE = re.compile(r"([0-9]{6,9})-([0-9a-f]{16})(\.[a-z]{2})")
TOOL_FILE = re.compile(r"(.+)(\.py|\.js|\.ts)", re.S)
MOST_LOST = (
    1000  # versions in a row whose files somebody may have removed: a number further on is none that the store gave
)
LAST = 999_999_999
TICK_NS = 1_000_000_000  # the coarsest clock of a file system that is likely
Stamp = tuple[int, int, int]  # of a file or a folder: another one when it changes


@dataclass(frozen=True, slots=True)
class VersionFile(Version):
    """A version, and the file that it is in."""

    path: Path


@dataclass(frozen=True, slots=True)
class History:
    """The versions of a tool, the oldest first, and what stands among their files and is none: why, by the file's
    name.
    """

    versions: list[VersionFile]
    ignored: dict[str, str]
    last: int  # the highest number that was given, also to a version that can't be used


class Store:
    """A `ToolStore` that is a folder. Made on the first write."""

    def __init__(self, folder: Path, scope: StoreScope) -> None:
        self.folder = folder
        self.scope: StoreScope = scope
        self.where = str(folder)
        self._above = str(folder.parent)
        self._scanned: tuple[dict[str, Stamp], dict[str, Found]] = {}, {}
        self._settled: dict[str, Stamp | None] | None = None  # what tells that nothing has changed since

    def scan(self) -> dict[str, Found]:
        settled = self._settled  # once: another thread may be about to look anew
        if settled is not None and all(_stamp(path) == stamp for path, stamp in settled.items()):
            self._check()
            return self._scanned[1]
        self._settled = None
        self._check()
        began, folder = time.time_ns(), _stamp(self.where)
        stamps: dict[str, Stamp] = {}
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if TOOL_FILE.fullmatch(entry.name):
                        with contextlib.suppress(FileNotFoundError):  # removed in between
                            stamps[entry.name] = _stamp_of(entry.stat(follow_symlinks=False))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise StoreError(f"{self.folder} can't be read: {error.strerror}") from None
        before, found = self._scanned
        if stamps != before:
            found = {}
            for name, stamp in sorted(stamps.items()):
                if NAME.fullmatch(tool := name[:-3]):
                    found[tool] = Found(tool, stamp if tool not in found else _both(found[tool].stamp, stamp))
            self._scanned = stamps, found
        # Last: other threads take what is settled for scanned.
        # A folder's time tells of files that come and go, but of two within one tick of the clock only once.
        if folder is None or began - folder[0] > TICK_NS:
            self._settled = {self.where: folder} | {f"{self.where}/{name}": stamp for name, stamp in stamps.items()}
        return found

    def find(self, name: str) -> Found | None:
        stamps = [_stamp(str(path)) for path in self._paths(name)]
        there = [stamp for stamp in stamps if stamp is not None]
        return Found(name, functools.reduce(_both, there)) if there else None

    def strangers(self) -> list[str]:
        try:
            self._check()
            names = sorted(os.listdir(self.folder))
        except (OSError, StoreError):  # which `scan` tells of
            return []
        return [
            name
            for name in names
            if TOOL_FILE.fullmatch(name) and not name.startswith(".") and not NAME.fullmatch(name[:-3])
        ]

    def read(self, name: str) -> ToolFile | None:
        path = self._current(name)
        try:
            return toolfile.read(read_bounded(path, MAX_BYTES), name, by_suffix(path.name))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ComposeRefused(name, [f"its file can't be read: {error.strerror or error}"]) from None

    def text(self, name: str) -> str:
        path = next((path for path in self._paths(name) if _stamp(str(path)) is not None), self._paths(name)[0])
        try:
            data = read_bounded(path, MAX_BYTES)
        except OSError as error:
            raise StoreError(f"{path} can't be read: {error.strerror or error}") from None
        if len(data) > MAX_BYTES:
            raise StoreError(f"{path} is larger than {MAX_BYTES} bytes, which no tool's file may be")
        return data.decode("utf-8", "surrogateescape")

    def versions(self, name: str, *, whole: bool = False) -> list[Version]:
        return [*self.history(name, whole=whole).versions]

    def history(self, name: str, *, whole: bool = False) -> History:
        """The versions of a tool, and what is planted or damaged among them.

        A project's files may come from anybody. So the newest version is one whose content is what its name says, with
        a number that follows on the others; the content of older ones is looked at with *whole*, and when they are
        used.
        """
        folder, ignored = self._history(name), dict[str, str]()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return History([], {}, 0)
        except OSError as error:
            raise StoreError(f"the history of {name} can't be read: {error.strerror}") from None
        versions: list[VersionFile] = []
        for entry in entries:
            with apart(entry.name, ignored):
                if (version := _version(entry)) is not None:
                    versions.append(version)
        versions.sort(key=lambda version: (version.number, version.digest))
        last = 0
        for at, version in enumerate(versions):
            if version.number - last > MOST_LOST:
                ignored |= {one.path.name: f"its number does not follow on version {last}" for one in versions[at:]}
                del versions[at:]
                break
            last = version.number
        sound: list[VersionFile] = []
        for version in reversed(versions):
            if whole or not sound:
                with apart(version.path.name, ignored):
                    _check_content(name, version, read_bounded(version.path, MAX_BYTES))
                    sound.append(version)
            else:
                sound.append(version)
        return History(sound[::-1], ignored, last)

    def ignored(self) -> list[str]:
        told: list[str] = []
        for name in self.histories():
            wrong: dict[str, str] = {}
            with apart(name, wrong):
                told += [
                    f"{self.folder / '.history' / name / file}: {why}; it is ignored"
                    for file, why in self.history(name, whole=True).ignored.items()
                ]
            told += [f"{self.folder / '.history' / name}: {why}" for why in wrong.values()]
        return told

    def histories(self) -> list[str]:
        """The names of the tools that have a history, removed ones too."""
        self._check()
        try:
            with os.scandir(self.folder / ".history") as entries:
                return sorted(entry.name for entry in entries if NAME.fullmatch(entry.name))
        except OSError:
            return []

    def version(self, name: str, number: int) -> ToolFile:
        versions = self.history(name).versions
        wanted = [version for version in versions if version.number == number]
        if not wanted:
            raise no_version(name, number, versions)
        problems: dict[str, str] = {}
        found: dict[str, bytes] = {}  # by the names of their files
        for version in wanted:
            with apart(version.path.name, problems):
                data = read_bounded(version.path, MAX_BYTES)
                _check_content(name, version, data)
                found[version.path.name] = data
        if not found:
            raise StoreError(next(iter(problems.values())))
        if len(found) > 1:
            raise StoreError(
                f"{name} has {len(found)} versions {number}, {' and '.join(found)}: remove all but one from its history"
            )
        ((file_name, data),) = found.items()
        return toolfile.read(data, name, by_suffix(file_name))

    def save(self, file: ToolFile, *, replace: bool = True) -> tuple[Version, bool]:
        with self._alone():
            history = self.history(file.name)
            try:
                now = self.read(file.name)
            except ComposeRefused:
                now = None
            if not replace and self.find(file.name) is not None and (now is None or now.digest != file.digest):
                raise already_there(file.name, self.scope)
            if now is not None and now.digest == file.digest:
                same = [version for version in history.versions if version.digest == file.digest[:16]]
                if same:
                    return same[-1], False
            return self._write(file, history), True

    def adopt(self, file: ToolFile) -> Version:
        with self._alone():
            history = self.history(file.name)
            same = [version for version in history.versions if version.digest == file.digest[:16]]
            now = self.read(file.name)
            if now is None or now.digest != file.digest:
                return same[-1] if same else Version(0, file.digest[:16], 0.0)
            if same and history.versions[-1] is same[-1]:
                return same[-1]
            return self._write(file, history)

    def remove(self, name: str) -> None:
        with self._alone():
            if not self._clear(name):
                raise StoreError(f"there is no composed tool {name} in the {self.scope} store")
            sync_folder(self.folder)

    def place(self, file: ToolFile, number: int) -> Version:
        """Make *file* current under a number that another store has given it, of which this folder is a copy."""
        with self._alone():
            return self._write(file, History([], {}, number - 1))

    def rollback(self, name: str, number: int) -> Version:
        file = self.version(name, number)
        with self._alone():
            try:
                now = self.read(name)
            except ComposeRefused:
                now = None
            history = self.history(name)
            if now is not None and now.digest == file.digest and history.versions[-1].digest == file.digest[:16]:
                return history.versions[-1]  # it is what is current
            return self._write(file, history)

    def _write(self, file: ToolFile, before: History) -> Version:
        number = before.last + 1
        if number > LAST:
            raise StoreError(
                f"{file.name} has a version {before.last}, the last that there can be: clear {self._history(file.name)}"
            )
        versioned = file.with_version(number)
        history = self._history(file.name)
        if not history.is_dir():
            history.mkdir(parents=True, exist_ok=True)
            sync_folder(history.parent)
        self._sweep(history)
        path = history / _file_name(number, file.digest, file.suffix)
        data = versioned.source.encode()
        write_whole(path, data)
        write_whole(self.folder / f"{check_name(file.name)}{file.suffix}", data)
        self._clear(file.name, but=file.suffix)  # it was in another language
        return VersionFile(number, file.digest[:16], path.stat().st_mtime, path)

    def _sweep(self, history: Path) -> None:
        """Remove what a writer that was killed left behind: nobody else writes now."""
        for folder in (history, self.folder):
            for entry in os.scandir(folder):
                if entry.name.startswith(TEMPORARY) and entry.is_file(follow_symlinks=False):
                    os.unlink(entry.path)

    def _check(self) -> None:
        """A project comes from elsewhere, and a link in it may lead anywhere. The user's own folder is where they
        want it.
        """
        if self.scope == "project" and (os.path.islink(self.where) or os.path.islink(self._above)):
            raise StoreError(
                f"{self.folder} is a link, or in one: a project has its composed tools in a folder of its own"
            )

    def _paths(self, name: str) -> list[Path]:
        """Where the file of a tool is, or would be: one for each language."""
        self._check()
        return [self.folder / f"{check_name(name)}{suffix}" for suffix in SUFFIXES.values()]

    def _current(self, name: str) -> Path:
        """The file of a tool: the one that is there. `ComposeRefused` if there are several."""
        paths = self._paths(name)
        there = [path for path in paths if _stamp(str(path)) is not None]
        if len(there) > 1:
            names = " and ".join(path.name for path in there)
            raise ComposeRefused(name, [f"it has several files, {names}: remove all but one"])
        return there[0] if there else paths[0]

    def _clear(self, name: str, but: str = "") -> bool:
        """Remove the files of a tool, but for one; whether there was any."""
        removed = False
        for path in self._paths(name):
            if path.suffix != but:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                    removed = True
        return removed

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


def _stamp(path: str) -> Stamp | None:
    """The stamp of what stands at *path*, without following links; None if nothing does."""
    try:
        return _stamp_of(os.lstat(path))
    except OSError:
        return None


def _both(one: Stamp, other: Stamp) -> Stamp:
    """The stamp of two files of one tool."""
    return max(one[0], other[0]), one[1] + other[1], one[2] + other[2]


def _stamp_of(stat: os.stat_result) -> Stamp:
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def composed_stores(project: Path) -> list[Store]:
    """The stores of a project: its own, and the user's."""
    return [Store(project / STATE / "composed-tools", "project"), Store(user_data() / "composed-tools", "global")]


def _version(entry: os.DirEntry[str]) -> VersionFile | None:
    """The version that a file in a history says that it is; None if it is another's business, like a temporary file."""
    if entry.name.startswith("."):
        return None
    match = VERSION_FILE.fullmatch(entry.name)
    if (
        match is None
        or match[3] not in SUFFIXES.values()
        or entry.name != _file_name(int(match[1]), match[2], match[3])
        or int(match[1]) == 0
    ):
        raise StoreError("it is not named as the store names a version")
    if not entry.is_file(follow_symlinks=False):
        raise StoreError("it is not an ordinary file")
    return VersionFile(int(match[1]), match[2], entry.stat(follow_symlinks=False).st_mtime, Path(entry.path))


def _file_name(number: int, digest: str, suffix: str) -> str:
    return f"{number:06d}-{digest[:16]}{suffix}"


def _check_content(name: str, version: VersionFile, data: bytes) -> None:
    known = toolfile.identity(data)
    if known is None or not known[0].startswith(version.digest) or known[1] != version.number:
        raise StoreError(
            f"version {version.number} of {name} is damaged: {version.path} is not what was saved; take another"
        )
