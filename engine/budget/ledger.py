"""What was spent and what is held: the data of a ledger, and what one must do, wherever it is kept.

A call's money is held before it starts (`reserve`) and counted after it (`settle`), under one key. A hold whose process
died stays: the call may have cost it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol

from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import BadTask

Scope = Literal["task", "execution", "client", "day", "month"]
LONGEST_KEY = 500
LONGEST_LABEL = 200


@dataclass(frozen=True, slots=True)
class LedgerCall:
    """One try of a task, which has one key; and the client with a token for whom it is made, if it is for one."""

    key: str
    execution_id: str
    task_id: str
    client: str = ""

    def __post_init__(self) -> None:
        for text in (self.key, self.execution_id, self.task_id):
            if not 0 < len(text) <= LONGEST_KEY or storable(text, LONGEST_KEY) != text:
                raise BadTask(
                    f"{text[:80]!r} can't be the key of a spend, nor part of one: 1 to {LONGEST_KEY} "
                    "characters of ordinary text"
                )
        if storable(self.client, LONGEST_LABEL) != self.client:
            raise BadTask(f"{self.client[:80]!r} can't be the name of a client")


@dataclass(frozen=True, slots=True)
class Limit:
    """What a scope may spend. A day, a month, or the day of a client has a start and an end."""

    scope: Scope
    usd: float | None = None
    tokens: int | None = None
    start: float = 0.0
    end: float = 0.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be held for a call, and the least it can do with; None: no less than that.

    What is held of the task's own limit may be what earlier tries have left of it, but not if the dollars are `whole`.
    """

    usd: float | None
    tokens: int
    least_usd: float | None = None
    least_tokens: int | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class HeldAmount:
    """What a reservation came to."""

    usd: float | None
    tokens: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """A limit that a reservation does not fit in; or, of one that was passed, what is spent and held against it."""

    scope: Scope
    unit: Literal["usd", "tokens"]
    spent: float
    wanted: float
    limit: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What a call came to. None is not known."""

    usd: float | None
    tokens: int | None
    runtime: str
    model: str | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """What was written for a call, and by how much it is over what was held for it."""

    usd: float | None
    tokens: int
    estimated: bool
    tokens_estimated: bool
    over_usd: float
    over_tokens: int
    passed: tuple[Refusal, ...] = ()  # the limits that do not hold what is counted now


class SpentSum(NamedTuple):
    """What was spent, added up."""

    runs: int
    usd: float
    tokens: int
    estimated_usd: float
    estimated_tokens: int
    unknown: int  # runs whose cost is not known
    over_usd: float  # beyond what was held
    forced: int


class HeldSum(NamedTuple):
    """What one process holds, added up."""

    owner: str
    calls: int
    usd: float
    tokens: int
    forced: int


class GroupSum(NamedTuple):
    """What the runs of one runtime or model came to."""

    name: str | None
    runs: int
    usd: float
    tokens: int
    unknown: int


class OpenHold(NamedTuple):
    """What is held for one call."""

    key: str
    usd: float | None
    tokens: int
    at: float
    owner: str


class LedgerView(Protocol):
    """A ledger at one moment."""

    def spent(self, start: float, end: float, *, unknown_usd: float, client: str | None) -> SpentSum:
        """What was spent in that time, by a *client* or by all; a cost that is not known counts as *unknown_usd*."""

    def held(self, start: float, end: float, *, unknown_usd: float, client: str | None) -> Iterator[HeldSum]:
        """What each process holds, of that time."""

    def spent_by(self, execution_id: str) -> SpentSum:
        """What an execution has spent. A cost that is not known is none here."""

    def held_for(self, execution_id: str) -> Iterator[HeldSum]:
        """What each process holds for an execution."""

    def clients(self, start: float, end: float, most: int) -> list[str]:
        """The clients that have spent or hold something, of that time."""

    def groups(self, by: Literal["runtime", "model"], start: float, end: float, most: int) -> list[GroupSum]:
        """What was spent in that time, the most expensive first."""

    def owners(self) -> dict[str, int]:
        """The processes that hold something, and for how many calls."""

    def oldest(self, most: int) -> list[OpenHold]:
        """The oldest of what is held."""


class Ledger(Protocol):
    """What all processes of a project spend and hold. Thread-safe; the methods block. `LedgerError` if it can't be
    used: nothing may be spent then.
    """

    def reserve(
        self,
        call: LedgerCall,
        wanted: Wanted,
        limits: Sequence[Limit],
        *,
        unknown_usd: float,
        at: float,
        force: bool = False,
    ) -> HeldAmount | Refusal:
        """Hold money for a call if it fits every limit; with *force* in any case, but for a client's own limit. Check
        and hold are one, so no two processes are promised the same money.

        Of the task's own limit, what earlier tries have left is held, if the estimate would have fitted at first; of
        the other limits what is left, if the call can do with that.
        """

    def settle(
        self,
        call: LedgerCall,
        cost: Cost,
        *,
        at: float,
        month_start: float,
        limits: Sequence[Limit] = (),
        unknown_usd: float = 0.0,
    ) -> Counted:
        """Count what a call came to, in the day it was reserved, instead of what was held for it.

        What is not known counts as what was held. Done again, new figures replace the old, and an unknown replaces
        nothing. Which of *limits* are passed is told.
        """

    def release(self, key: str) -> None:
        """Let go of what was held for a call that was never made."""

    def reading(self) -> AbstractContextManager[LedgerView]:
        """One consistent view."""


def storable(text: str, most: int) -> str:
    """Text that a database takes: what programs say of themselves may be anything."""
    return text[:most].encode("utf-8", "replace").decode("utf-8").replace("\0", "")
