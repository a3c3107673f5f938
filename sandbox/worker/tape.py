"""What a run needs of its record, so that it can be resumed later: how it began, what it did, and what it heard.

The sandbox says what happens, in order; whoever holds the tape keeps it, and says it again when the run is replayed.
Light: workers need a part of it.
"""

from __future__ import annotations

import hashlib
from typing import Any, Protocol

from go_ent.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Start:
    """How a guest run begins: the same again gives the same run."""

    seed: bytes  # 32 bytes
    wall_ns: int  # the time of day
    compiled: bool  # whether its code was handed over compiled, or compiled in the guest: the heap differs
    image: str  # digest
    source: str  # `source_digest`, hex


def source_digest(source: bytes, language: str) -> bytes:
    """What a record knows a source by: the same text in another language is another source."""
    return hashlib.sha256(source if language == "python" else language.encode() + source).digest()


@dataclass(frozen=True, slots=True)
class Taped:
    """What a worker is told of a run's tape: when the run began and, in a replay, all that the recorded run heard."""

    wall_ns: int
    heard: bytes | None  # None: it runs for the first time


class Tape(Protocol):
    """The record of one run. Its methods may be called from any thread, and may raise OSError if nothing can be
    kept.
    """

    start: Start | None  # of the run to be replayed; None when it runs for the first time
    heard: bytes  # all that the recorded run heard: the pieces that `calls` was given, joined by commas

    def begin(self, start: Start) -> None:
        """The run has just begun, and nothing that it says is heard before this returns. A replay is about to begin, as
        recorded but for the image and the source, which may raise `Diverged`.
        """

    def calls(
        self, calls: list[tuple[int, str, list[Any], dict[str, Any]]], cancelled: list[int], heard: bytes
    ) -> list[bytes | None]:
        """One message of the guest, and what it heard before it: to be kept with the first thing that is kept of the
        message.

        The answer, for each call: its recorded completion; b"" for one that the guest cancelled, which is neither made
        nor answered again; None for one to be made now. Raises `Diverged`. That call 0 is cancelled, which there never
        is, says only that the run has got so far.
        """

    def answered(self, call_id: int, completion: bytes | None) -> None:
        """A call has ended, and nothing that the guest makes of it is heard before this returns. None: the guest
        cancelled it.
        """

    def checkpoint(self, label: str, value: bytes) -> None:
        """The guest wants *value*, which is JSON, to be seen under *label*."""

    def ended(self) -> None:
        """The guest has answered. Raises `Diverged` if the recorded run made calls that this one did not."""
