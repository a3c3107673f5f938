"""What keeps executions, as protocols: no folder, file, lock or database is seen through them.

`engine/storage` keeps them in files, and in memory. `tests/engine/storage/test_contract.py` is what each way must do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Annotated, Any, Protocol, TypedDict, Unpack

from pydantic import Field

from go_ent.dataclass import dataclass
from go_ent.engine.core.ids import ID
from go_ent.engine.core.models import ExecutionKind, Model, StrategyName
from go_ent.engine.executions.history import CallTotals, ExecutionRecord, Grouping, Totals
from go_ent.engine.executions.state import ExecutionState, ExecutionStatus

Record = dict[str, Any]
MAX_MARK = 1 << 20  # bytes of a request for a mark
MOST_READ = 10_000  # records at once of one who follows


class Row(Model):
    """An execution as the index knows it."""

    id: Annotated[str, Field(pattern=f"^{ID.pattern}$")]
    parent: str | None
    kind: ExecutionKind
    status: ExecutionStatus
    title: str
    strategy: StrategyName
    created: float
    updated: float
    finished: float | None
    spent_usd: float | None
    spent_tokens: int
    image: str
    resumable: bool
    client: str  # who began it; "": the project's own user
    size: int  # bytes that it takes; 0 until somebody has measured it
    packed: bool = False  # whether it is kept with others


class Filters(TypedDict, total=False):
    """Which executions are wanted: those that fit all that is not None."""

    status: ExecutionStatus | None
    kind: ExecutionKind | None
    parent: str | None
    since: float | None  # the times at which they were made
    before: float | None
    client: str | None
    text: str | None  # in their title, in any case
    tool: str | None  # that they ran, or that their code called
    runtime: str | None  # of any of their tries
    below: str | None  # the ids before this one: where a page ends, the next goes on


class Attachments(Protocol):
    """What is kept beside an execution's record, by name: each whole or not there, and never written over. The methods
    block; `OSError` if one can't be done, `BadState` if this is nothing that we made.
    """

    @property
    def where(self) -> str:
        """What messages call the place."""

    def names(self, most: int) -> list[str]:
        """What there is; not more than one above *most*."""

    def read(self, name: str, most: int) -> bytes:
        """One of them; of a larger one, more than *most* bytes."""

    def add(self, name: str, data: bytes) -> None:
        """Keep one, on disk when this returns. `FileExistsError` if there is one of that name."""

    def alone(self) -> AbstractContextManager[None]:
        """While nobody else adds any."""

    def prepare(self) -> None:
        """Make sure that one could be added."""


class Slot(Protocol):
    """The record of one execution that this process holds: nobody else changes it until `release`. Thread-safe; only
    `append` and `pack` do not block.

    A new one is with this process alone until `place`.
    """

    @property
    def where(self) -> str:
        """What messages call the place."""

    @property
    def placed(self) -> bool:
        """Whether others can see it."""

    @property
    def before(self) -> str | None:
        """The identity of the process that had it and died, if one did."""

    @property
    def released(self) -> bool:
        """Whether others may have it."""

    @property
    def seq(self) -> int:
        """The number of the last record."""

    @property
    def size(self) -> int:
        """Where the last record ends: bytes so far."""

    def place(self, state: ExecutionState) -> None:
        """Let others see it, with its *state* so far; a crash leaves it as it is then. Once is enough."""

    def append(self, kind: str, data: Mapping[str, Any], raw: Mapping[str, bytes] | None = None) -> int:
        """Add a record, and give its number. The *raw* members are JSON already. Once the slot is placed, it outlives
        this process soon, and others see it: at the latest when `sync` returns.
        """

    def sync(self) -> None:
        """All that was appended, in a slot that is placed, outlives this machine when this returns."""

    def save(self, state: ExecutionState) -> None:
        """Keep a copy of the state, to read it faster. It may be lost, or old: the records have it all. Never fails."""

    def records(self) -> Iterator[Record]:
        """All records. Where some are lost, a note says which."""

    def may_pack(self, more: int) -> bool:
        """Whether it is not placed, and small enough to be kept with others when so many bytes are added."""

    def pack(self, state: Callable[[], ExecutionState], calls: Mapping[str, CallTotals]) -> bool:
        """Keep one that has ended with others, and release it, if it may still be; whether that was done. Others see it
        at the latest when the storage's `flush` returns. `OSError` if it can't be kept. *state* makes its state, which
        may be asked for later.
        """

    def interrupt_requested(self) -> bool:
        """Whether another process has asked to stop; asking is answered once."""

    def mark_requested(self) -> bytes | None:
        """What another process asks to be marked, if one does: it waits for `mark_answered`. Empty if it can't be
        read.
        """

    def mark_answered(self) -> None:
        """Tell who asked that it is done, or can't be."""

    def attachments(self, kind: str) -> Attachments:
        """What is kept beside it, of one kind."""

    def release(self) -> None:
        """Let others have it. Once is enough."""


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """What a look at the index has found, for people: what is wrong with it, and how many executions it has of those
    that there are.
    """

    known: int = 0
    there: int = 0
    behind: bool = False  # it knows that it lacks some
    problem: str = ""


class ExecutionIndex(Protocol):
    """Executions found by id, status, kind, parent and time, and summed up. The methods block. Telling it never
    fails: what it could not be told, it finds out itself.
    """

    def together(self) -> AbstractContextManager[None]:
        """What this thread tells it meanwhile is told at the end, at once."""

    def put(self, state: ExecutionState) -> None:
        """Tell it of an execution's state; of an older one than it knows, nothing is changed."""

    def note(self, execution_id: str, records: Iterable[ExecutionRecord], calls: Mapping[str, CallTotals]) -> None:
        """Tell it what an execution came to so far, instead of what it was told before."""

    def remove(self, *ids: str) -> None:
        """Forget executions."""

    def find(self, text: str) -> list[str]:
        """The ids that *text* may stand for (`ids.is_meant`), four at the most."""

    def shared(self) -> set[str]:
        """The short ids that several executions have: people are shown more of those."""

    def rows(self, limit: int = 50, **filters: Unpack[Filters]) -> list[Row]:
        """Executions, the newest first."""

    def counts(self) -> dict[str, int]:
        """How many executions there are of each status."""

    def calls(self, ids: Sequence[str]) -> dict[str, int]:
        """How many calls the guests of executions have made, as far as they were counted."""

    def totals(self, by: Grouping, *, since: float | None = None) -> dict[str, Totals]:
        """What executions came to, of each runtime, model, role, strategy, tool or day (in UTC); what has none is
        `unknown`. By tool, the calls that guests made count too; they have no cost of their own.
        """

    def missing(self) -> dict[str, str]:
        """The executions that it can't hold, the newest first, and why; only so many are looked at."""

    def rebuild(self) -> int:
        """Make it anew; how many executions it holds then."""

    def check(self) -> IndexCheck | None:
        """Whether it can be used; None if there is nothing to be looked up yet."""


class StorageWatch(Protocol):
    """Somebody is told when what a storage keeps may have changed. Thread-safe."""

    def follow(self, ids: Iterable[str]) -> None:
        """Also when a record is added to one of these executions, instead of those before."""

    def close(self) -> None:
        """Nobody is told any more when this returns."""


class ExecutionStorage(Protocol):
    """Where the executions of a project are kept. The methods block, but for `create`."""

    @property
    def index(self) -> ExecutionIndex:
        """Its index."""

    def create(self, execution_id: str) -> Slot:
        """A new execution, held by this process; it is with this process alone so far."""

    def hold(self, execution_id: str) -> tuple[Slot, ExecutionState]:
        """Take an execution that is there, and mend its record if that is needed. `ExecutionConflict` names the process
        that has it, `ExecutionNotFound` says that there is none.
        """

    def is_held(self, execution_id: str) -> bool:
        """Whether a process has it: it runs there, or is about to, or has just ended."""

    def where(self, execution_id: str) -> str:
        """What people call the place of an execution."""

    def has(self, execution_id: str) -> bool:
        """Whether there is an execution of that id."""

    def ids(self) -> list[str]:
        """Executions that the index may not know yet, the oldest first; others may be among them."""

    def load(self, execution_id: str, *, compare: bool = True) -> ExecutionState:
        """What its record says, as it is. Nothing is mended by looking. What is known to have been there is said to be
        lost if it is not, unless nobody wants to *compare*.
        """

    def records(self, execution_id: str) -> Iterator[Record]:
        """All records of an execution. Where some are lost, a note says which."""

    def read_from(self, execution_id: str, offset: int, most: int = MOST_READ) -> tuple[list[Record], int]:
        """The records from *offset* on, about *most* of them at once, and where to read on. What was mended is read
        from its beginning.
        """

    def attachments(self, execution_id: str, kind: str) -> Attachments:
        """What is kept beside an execution, of one kind."""

    def forget_unborn(self, execution_id: str) -> None:
        """Remove what a process left that was killed before its first record."""

    def ask_to_interrupt(self, execution_id: str) -> None:
        """Ask the process that has an execution to stop it."""

    def ask_for_mark(self, execution_id: str, request: bytes, patience_s: float) -> bool:
        """Ask the process that has an execution for a mark, and wait until it has answered; False if it has died
        meanwhile. `ExecutionConflict` if it does not answer.
        """

    def watch(self, told: Callable[[], None]) -> StorageWatch:
        """Have *told* called, by another thread, soon after the list of executions or one of those that are followed
        may have changed, and after each `follow`. Nobody looks meanwhile. What a process has not placed yet is not
        told of.
        """

    def oldest(self) -> Iterator[Row]:
        """All executions that may be removed, the oldest first."""

    def sizes(self, rows: Iterable[Row]) -> dict[str, int]:
        """What each of these executions takes, in bytes."""

    def remove(self, rows: Iterable[Row], failed: dict[str, str], *, resumable: bool) -> tuple[list[str], int]:
        """Remove executions, unless somebody has one, or it can be resumed and is not to go though it is *resumable*:
        which of them were, and what they took. Those that could not be are *failed*, with why.
        """

    def turn_to_prune(self, every_s: float) -> AbstractContextManager[bool]:
        """Whether it is this process's turn: nobody else is at it, and nobody finished within that time."""

    def needs_image(self, digest: str) -> bool:
        """Whether an execution that can be resumed was run by that image. Where that can't be known, it is so."""

    def older_runs(self) -> Iterator[bytes]:
        """The lines of the list of runs that older versions kept, the newest first."""

    def flush(self) -> None:
        """What has ended here is safe, and in the index, when this returns. Never fails."""

    def close(self) -> None:
        """Flush, and let go of everything. The next use takes it again."""
