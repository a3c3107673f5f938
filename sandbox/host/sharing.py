"""Sharing out what there is a bounded number of, among callers who know nothing of each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar

CALLER: ContextVar[str] = ContextVar("CALLER", default="")  # who calls, where several do


class Shares:
    """*total* of something for a number of callers. Whoever has it sees to it that one thread at a time uses it.

    One half is shared out evenly, and kept free for each caller until it takes it; the other half is for whoever comes
    first. So a caller gets its own part at once however much the others have taken, and one that is alone gets nearly
    all. Where there is one caller, all is its own.
    """

    def __init__(self, total: int, callers: Callable[[], int]) -> None:
        self.total = total
        self._callers = callers
        self.held: Counter[str] = Counter()

    @property
    def shared(self) -> bool:
        """Whether there are several callers."""
        return self._callers() > 1

    @property
    def sure(self) -> int:
        """What each caller can have whatever the others do."""
        callers = self._callers()
        return self.total if callers <= 1 else max(1, self.total // (2 * callers))

    @property
    def most(self) -> int:
        """What a caller can have when the others have nothing."""
        return max(self.sure, self.total - self.sure * (max(1, self._callers()) - 1))

    def room(self, caller: str) -> int:
        """How much more *caller* may take now."""
        free = self.total - self.held.total()
        if not self.shared:
            return max(0, free)
        sure = self.sure
        others = sum(min(sure, held) for name, held in self.held.items() if name != caller)
        kept_free = max(0, sure * (max(1, self._callers()) - 1) - others)
        return max(0, min(free, sure - self.held[caller]), free - kept_free)

    def take(self, caller: str, amount: int = 1) -> None:
        """Count it as *caller*'s: `room` says whether there is any."""
        self.held[caller] += amount

    def give(self, caller: str, amount: int = 1) -> None:
        self.held[caller] -= amount
        if self.held[caller] <= 0:
            del self.held[caller]
