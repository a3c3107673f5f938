"""A circuit breaker: a runtime that failed three times in a row is left out for a minute."""

from __future__ import annotations

import time
from collections.abc import Callable

from go_ent.dataclass import dataclass

FAILURES = 3
OUT_S = 60.0


@dataclass(slots=True)
class _Line:
    failures: int = 0
    out_until: float = 0.0


class Breaker:
    """Counts failures by runtime. After its minute a runtime gets one try; another failure puts it out again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lines: dict[str, _Line] = {}

    def out_for(self, runtime: str) -> float:
        """Seconds for which a runtime is left out; 0 if it is not."""
        line = self._lines.get(runtime)
        return max(0.0, line.out_until - self._clock()) if line is not None else 0.0

    def failed(self, runtime: str) -> None:
        line = self._lines.setdefault(runtime, _Line())
        line.failures += 1
        if line.failures >= FAILURES:
            line.out_until = self._clock() + OUT_S

    def worked(self, runtime: str) -> None:
        self._lines.pop(runtime, None)
