"""Composed tools in memory: for tests, and for programs that want nothing on disk. They go with the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from go_ent.composer.composed import toolfile
from go_ent.composer.composed.tool_store import Found, StoreScope, Version, already_there, no_version
from go_ent.composer.composed.toolfile import ToolFile, check_name
from go_ent.composer.errors import StoreError


class MemoryToolStore:
    """A `ToolStore` in memory. Thread-safe."""

    def __init__(self, scope: StoreScope = "project") -> None:
        self.scope: StoreScope = scope
        self.where = f"the {scope} store in memory"
        self._files: Mapping[str, Found] = {}  # replaced whenever a tool is another one
        self._current: dict[str, str] = {}
        self._versions: dict[str, list[tuple[Version, str]]] = {}
        self._lock = threading.RLock()

    def scan(self) -> Mapping[str, Found]:
        return self._files

    def find(self, name: str) -> Found | None:
        return self._files.get(check_name(name))

    def strangers(self) -> list[str]:
        return []

    def ignored(self) -> list[str]:
        return []

    def read(self, name: str) -> ToolFile | None:
        source = self._current.get(check_name(name))
        return None if source is None else toolfile.read(source, name)

    def text(self, name: str) -> str:
        try:
            return self._current[check_name(name)]
        except KeyError:
            raise self._missing(name) from None

    def versions(self, name: str, *, whole: bool = False) -> list[Version]:
        return [version for version, _ in self._versions.get(check_name(name), ())]

    def version(self, name: str, number: int) -> ToolFile:
        for version, source in self._versions.get(check_name(name), ()):
            if version.number == number:
                return toolfile.read(source, name)
        raise no_version(name, number, self.versions(name))

    def save(self, file: ToolFile, *, replace: bool = True) -> tuple[Version, bool]:
        with self._lock:
            now = self.read(file.name)
            if now is None or now.digest != file.digest:
                if now is not None and not replace:
                    raise already_there(file.name, self.scope)
                return self._write(file), True
            return self.versions(file.name)[-1], False

    def adopt(self, file: ToolFile) -> Version:
        return self.save(file)[0]  # nobody edits what is in memory

    def remove(self, name: str) -> None:
        with self._lock:
            if self._current.pop(check_name(name), None) is None:
                raise self._missing(name)
            self._files = {other: found for other, found in self._files.items() if other != name}

    def rollback(self, name: str, number: int) -> Version:
        with self._lock:
            return self.save(self.version(name, number))[0]

    def _write(self, file: ToolFile) -> Version:
        versions = self._versions.setdefault(file.name, [])
        version = Version(len(versions) + 1, file.digest[:16], time.time())
        source = file.with_version(version.number).source
        versions.append((version, source))
        self._current[file.name] = source
        found = Found(file.name, (time.time_ns(), len(source), version.number))
        self._files = dict(sorted({**self._files, file.name: found}.items()))
        return version

    def _missing(self, name: str) -> StoreError:
        return StoreError(f"there is no composed tool {name} in the {self.scope} store")
