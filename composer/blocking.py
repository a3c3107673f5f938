"""The composer for programs that do not await: scripts, notebooks, tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from go_ent.composer.codemode.codemode import CodeRun
from go_ent.composer.composed.source import Saved
from go_ent.composer.composed.tool_store import StoreScope, Version
from go_ent.composer.composer import Composer
from go_ent.composer.tool_access import Tools
from go_ent.sandbox import Limits, Run
from go_ent.sandbox.host.background import BackgroundLoop
from go_ent.sandbox.worker.languages import Language


class BlockingComposer:
    """A `Composer` for code that does not await: it has an event loop of its own, in a thread. Works in notebooks too.

    Use it in a `with`, or call `close`. Its methods block, may be called from several threads, and raise what the
    `Composer` method of that name raises. Async tools passed in run on its event loop.
    """

    def __init__(self, folder: Path | str = ".", **options: Any) -> None:
        """The composer of the project that *folder* is in; *options* are those of `Composer`."""
        self._loop = BackgroundLoop()
        try:
            self.composer = self._loop.call(_opened(folder, options))
        except BaseException:
            self._loop.close()
            raise
        self.tools = Tools(self.composer, self._loop.call)  # tools.errors(log=…), and tools() for the list

    def execute(
        self,
        code: str | bytes,
        inputs: Mapping[str, Any] | None = None,
        *,
        grants: Iterable[str] | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> CodeRun:
        """Run code over the granted tools; *options* are those of `CodeMode.execute`, such as `session`."""
        return self._loop.call(self.composer.code.execute(code, inputs, grants=grants, limits=limits, **options))

    def compose(self, source: str | bytes, *, scope: StoreScope = "project", language: Language | None = None) -> Saved:
        """Save a composed tool: checked, its examples run, versioned."""
        return self._loop.call(self.composer.compose(source, scope=scope, language=language))

    def run(self, tool: str, inputs: Mapping[str, Any] | None = None, **options: Any) -> Run:
        """Run a composed tool; whatever it does ends as a `Run` with a status."""
        return self._loop.call(self.composer.run(tool, inputs, **options))

    def call(self, name: str, /, **inputs: Any) -> Any:
        """Call any granted tool like a function: returns its result, or raises `CallError`."""
        return self._loop.call(self.composer.call(name, **inputs))

    def history(self, name: str) -> list[Version]:
        """The versions of a tool, the oldest first."""
        return self._loop.call(self.composer.history(name))

    def rollback(self, name: str, version: int) -> Version:
        """Restore an earlier version, as a new version."""
        return self._loop.call(self.composer.rollback(name, version))

    def remove(self, name: str) -> StoreScope:
        """Remove a tool; its versions stay."""
        return self._loop.call(self.composer.remove(name))

    def close(self) -> None:
        """Close the composer and end its thread."""
        self._loop.call(self.composer.close())
        self._loop.close()

    def __enter__(self) -> BlockingComposer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


async def _opened(folder: Path | str, options: Mapping[str, Any]) -> Composer:
    return Composer.open(folder, **options)
