"""Runs of the past, as far as schemas are learned and tools suggested from them, and the end of each run as an event.

The composer keeps no record itself: what runs it on record, as the engine does, gives it one to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any, Literal

from go_ent.composer.catalogue.scope import CallRecord
from go_ent.composer.project.items import apart
from go_ent.dataclass import dataclass
from go_ent.sandbox.worker.languages import Language


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run of a guest. Of runs that no tool can be made of, only the calls are told."""

    source: str | None = None  # of code that completed, and stands on nothing that was run before it
    inputs: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    kept: bool = True  # whether the result is there
    calls: tuple[CallRecord, ...] = ()
    language: Language = "python"


PastRuns = Callable[[], Iterable[PastRun]]
"""The runs on record, the newest first, and not more than can be read at once. Blocks: call it in a thread."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run has ended."""

    kind: Literal["code", "tool"]
    status: str
    ms: float


Listener = Callable[[RunEnded], None]
"""Told of each run that has ended; not to take long."""


def tell(listeners: Iterable[Listener], ended: RunEnded) -> None:
    """Tell all of them. One that fails costs no run."""
    for listener in listeners:
        with apart("a listener to runs", {}):
            listener(ended)
