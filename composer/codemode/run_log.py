"""What was run in a project: one line for each run, with its calls. Tools are learned and suggested from it."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from go_ent.composer.catalogue.scope import CallRecord, small
from go_ent.composer.project.files import check_folder, ignore_state, locked, open_ordinary
from go_ent.composer.project.items import apart
from go_ent.sandbox import Run

log = logging.getLogger("go_ent.composer")
MAX_LINE = 256 << 10
MAX_FILE = 32 << 20


class JournalledCall(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str
    arguments: dict[str, Any] | None = None  # None: too large to keep
    ok: bool
    result: Any = None
    kept: bool = True  # whether the result is there
    error: str | None = None
    ms: float = 0.0


class RunRecord(BaseModel):
    """One run."""

    model_config = ConfigDict(extra="ignore")

    v: int = 1
    id: str
    at: float
    kind: Literal["code", "tool"]
    name: str | None = None
    source: str | None = None
    session: str | None = None
    batch: str | None = None  # what it was one of many of: a pipeline over lines is one execution
    inputs: dict[str, Any] | None = None
    status: str
    result: Any = None
    kept: bool = True
    error: str | None = None
    calls: list[JournalledCall] = Field(default_factory=list)
    ms: float = 0.0


def record(
    kind: Literal["code", "tool"],
    run: Run,
    *,
    name: str | None = None,
    source: str | None = None,
    session: str | None = None,
    batch: str | None = None,
    inputs: dict[str, Any] | None = None,
    calls: list[CallRecord],
    ms: float,
) -> RunRecord:
    """A run's record, without what is too large to keep."""
    kept_result, kept = small(run.result)
    return RunRecord(
        id=run.id,
        at=time.time(),
        kind=kind,
        name=name,
        source=source,
        session=session,
        batch=batch,
        inputs=small(inputs)[0] if inputs else None,
        status=run.status,
        result=kept_result,
        kept=kept,
        error=None if run.error is None else f"{run.error.kind}: {run.error.message}"[:2000],
        calls=[_call(call) for call in calls],
        ms=round(ms, 3),
    )


def _call(call: CallRecord) -> JournalledCall:
    return JournalledCall(
        name=call.name,
        arguments=call.arguments,
        ok=call.ok,
        result=call.result,
        kept=call.kept,
        error=call.error,
        ms=round(call.ms, 3),
    )


class RunLog:
    """An append-only file of records, and the one before it. Any number of processes may append at once."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "runs.jsonl"
        self.older = folder / "runs.1.jsonl"
        self.listeners: list[
            Callable[[RunRecord], None]
        ] = []  # told of each run; from any thread, and not to take long

    def append(self, entry: RunRecord) -> None:
        """Write a record. A journal that can't be written costs no run: that is logged."""
        for listener in self.listeners:
            with apart("a listener to the journal", {}):
                listener(entry)
        try:
            self._append(entry)
        except (OSError, ValueError) as error:  # also text that is no Unicode
            log.warning("%s can't be written: %s", self.path, type(error).__name__)

    def _append(self, entry: RunRecord) -> None:
        line = entry.model_dump_json(exclude_defaults=True).encode() + b"\n"
        if len(line) > MAX_LINE:
            lean = entry.model_copy(update={"calls": [], "result": None, "kept": False, "inputs": None})
            line = lean.model_dump_json(exclude_defaults=True).encode() + b"\n"
            if len(line) > MAX_LINE:
                return
        check_folder(self.path.parent)
        try:
            handle = self._open()
        except FileNotFoundError:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            ignore_state(self.path.parents[1])
            handle = self._open()
        try:
            if (size := os.fstat(handle).st_size) and os.pread(handle, 1, size - 1) != b"\n":
                line = b"\n" + line  # what was torn by a crash or a full disk takes no other line with it
            os.write(handle, line)  # one write: lines of several processes don't mix
            if os.fstat(handle).st_size > MAX_FILE:
                self._rotate(handle)
        finally:
            os.close(handle)

    def _rotate(self, handle: int) -> None:
        with locked(self.path.with_name(".lock")), contextlib.suppress(FileNotFoundError):
            if os.fstat(handle).st_ino == os.stat(self.path).st_ino:  # or another process has just done it
                os.replace(self.path, self.older)

    def _open(self) -> int:
        return os.open(
            self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600
        )

    def read(self) -> Iterator[RunRecord]:
        """The records there are, the oldest first; lines that are none are passed over."""
        for path in (self.older, self.path):
            try:
                with open_ordinary(path) as file:
                    while line := file.readline(MAX_LINE + 1):
                        try:
                            yield RunRecord.model_validate_json(line)
                        except ValidationError:
                            continue
            except FileNotFoundError:
                continue
            except OSError as error:
                log.warning("%s can't be read: %s", path, error.strerror or error)
