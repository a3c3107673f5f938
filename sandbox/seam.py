"""The one place where time, randomness and the order of completions enter a run.

A guest has no other source of any of them: its WASI clocks and random imports are answered here, and completions
are handed over here. Replace the seam and a run can be recorded, or replayed exactly.
"""

from __future__ import annotations

import hashlib
import os
import time

SEED_BYTES = 32


class Seam:
    """Live time, and a random stream that follows from one seed."""

    def __init__(self, seed: bytes | None = None) -> None:
        self.seed = seed or os.urandom(SEED_BYTES)
        self._started = time.monotonic_ns()
        self._wall = time.time_ns()
        self._counter = 0

    def monotonic_ns(self) -> int:
        """Nanoseconds since this guest began; never less than one, so that it is never taken for "unset"."""
        return time.monotonic_ns() - self._started + 1

    def wall_ns(self) -> int:
        """The time of day. It follows the monotonic clock: one reading fixes both."""
        return self._wall + self.monotonic_ns()

    def random_bytes(self, size: int) -> bytes:
        self._counter += 1
        return hashlib.shake_256(b"stream" + self.seed + self._counter.to_bytes(8, "big")).digest(size)

    def deliver(self, completions: bytes) -> bytes:
        """What goes back to the guest at a crossing: the time, then the completions in their order."""
        return b"%.9f\n%b" % (self.monotonic_ns() / 1e9, completions)


def guest_seed(seed: bytes) -> int:
    """The seed of the guest's `random` module: always of the same length, so that fuel does not depend on it."""
    return 10**18 + int.from_bytes(seed[:7], "big")
