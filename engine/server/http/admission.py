"""How many requests each client may have under way, and how much of this process's memory they may take.

A request is counted from the moment when its client is known, and until nothing works on it any more: over the older
protocols a call runs on when its connection is gone. Its bytes are counted as they come. They are parsed only once
there is room for what that costs, which may be sixty times as much; until then they wait as bytes, the clients' by
turns. Where several clients are active, each one's requests begin one after another.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import field
from typing import Any

from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext

from go_ent.dataclass import dataclass
from go_ent.sandbox.host.sharing import Shares

SMALL = (
    16 << 10
)  # bytes that are parsed without waiting: to cancel or to answer must be possible while everything else waits
PARSED_BYTES = 512 << 20  # that all requests under way may cost, parsed
PER_BYTE, PER_VALUE = 4, 80  # what they are estimated to cost
VALUES = b",:[{"
YOUNG_S = 0.03  # after which a request that has not ended waits for something
ALONE_S = 2.0  # after which a client that sends nothing is not active
ALONE = 4  # requests that begin at once while no other client is active: the first of another is behind no more of them


class Busy(Exception):
    """Internal: raised when a client has no room left for a request; says what to do. It becomes HTTP 429."""


@dataclass(eq=False, slots=True)
class Ticket:
    """A request under way. Closed by the last of those who work on it."""

    admission: Admission
    caller: str
    end: Callable[[], None] | None  # for a stream that only listens: closes it, for the client can open it again
    size: int = 0
    cost: int = 0
    holders: int = 1
    closed: bool = False

    def grow(self, count: int) -> None:
        """So many more bytes have come."""
        if self.admission.held.room(self.caller) < count:
            raise Busy(
                "the requests that you have under way are as many bytes as they may be: retry when one of them "
                "has ended"
            )
        self.admission.held.take(self.caller, count)
        self.size += count

    def turn(self) -> asyncio.Future[None] | None:
        """What to wait for until it may begin, if anything."""
        return self.admission.turns.take(self)

    def room(self, body: bytes) -> asyncio.Future[None] | None:
        """What to wait for until there is room for what *body* costs once it is parsed, if anything."""
        if len(body) <= SMALL:
            return None
        return self.admission.make_room(self, min(estimate(body), self.admission.parsed.most))

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """While this lasts, something works on it."""
        self.holders += 1
        try:
            yield
        finally:
            self.let_go()

    def let_go(self) -> None:
        self.holders -= 1
        if self.holders == 0:
            self.close()

    def close(self) -> None:
        """Nothing works on it any more."""
        if not self.closed:
            self.closed = True
            self.admission.forget(self)


TICKET: ContextVar[Ticket | None] = ContextVar("TICKET", default=None)


@dataclass(slots=True)
class Turns:
    """Where several clients are active, the requests of each begin one after another; of one that is alone, a few at a
    time.

    One thread serves all of them, and what a request costs of it, it mostly costs at once: the next of the same client
    begins when it has ended, or is not young any more and so waits for something. Without this, who sends many at once
    holds up who sends one.
    """

    _seen: dict[str, float] = field(default_factory=dict)
    _young: dict[str, set[Ticket]] = field(default_factory=dict)
    _queues: dict[str, deque[tuple[Ticket, asyncio.Future[None]]]] = field(default_factory=dict)

    def take(self, ticket: Ticket) -> asyncio.Future[None] | None:
        """What to wait for until *ticket* may begin, if anything."""
        caller, loop = ticket.caller, asyncio.get_running_loop()
        self._seen[caller] = loop.time()
        if self._may_begin(caller):
            self._begin(ticket)
            return None
        turn: asyncio.Future[None] = loop.create_future()
        self._queues.setdefault(caller, deque()).append((ticket, turn))
        return turn

    def end(self, ticket: Ticket) -> None:
        """It has ended, or is young no more."""
        caller = ticket.caller
        young = self._young.get(caller, set())
        if ticket not in young:
            return
        young.remove(ticket)
        if not young:
            del self._young[caller]
        queue = self._queues.get(caller, deque())
        while queue and self._may_begin(caller):
            waiting, turn = queue.popleft()
            if not turn.done() and not waiting.closed:
                self._begin(waiting)
                turn.set_result(None)
        if not queue:
            self._queues.pop(caller, None)

    def _begin(self, ticket: Ticket) -> None:
        self._young.setdefault(ticket.caller, set()).add(ticket)
        asyncio.get_running_loop().call_later(YOUNG_S, self.end, ticket)

    def _may_begin(self, caller: str) -> bool:
        now = asyncio.get_running_loop().time()
        alone = all(now - seen > ALONE_S for name, seen in self._seen.items() if name != caller)
        return len(self._young.get(caller, ())) < (ALONE if alone else 1)


@dataclass(slots=True)
class Admission:
    """The requests of all clients."""

    requests: Shares
    held: Shares  # bytes
    parsed: Shares  # bytes, estimated
    turns: Turns = field(default_factory=Turns)
    _streams: dict[str, dict[Ticket, None]] = field(default_factory=dict)  # of each client, the oldest first
    _waiting: dict[str, deque[tuple[Ticket, int, asyncio.Future[None]]]] = field(
        default_factory=dict
    )  # whose turn it is comes first

    @classmethod
    def of(cls, requests: int, held: int, callers: int) -> Admission:
        def number() -> int:
            return callers

        return cls(Shares(requests, number), Shares(held, number), Shares(PARSED_BYTES, number))

    def enter(self, caller: str, end: Callable[[], None] | None = None) -> Ticket:
        """A ticket for one more request of *caller*; `Busy` if it has as many as it may.

        A stream of its own, which it can open again, makes room for a call; not for another stream: each would close
        the next.
        """
        if not self.requests.room(caller):
            oldest = next(iter(self._streams.get(caller, ())), None) if end is None else None
            if oldest is None or oldest.end is None:
                held = self.requests.held[caller]
                raise Busy(f"you have {held} requests under way, as many as you may: retry when one of them has ended")
            oldest.close()
            oldest.end()
        self.requests.take(caller)
        ticket = Ticket(self, caller, end)
        if end is not None:
            self._streams.setdefault(caller, {})[ticket] = None
        return ticket

    def make_room(self, ticket: Ticket, cost: int) -> asyncio.Future[None] | None:
        """Count *cost* as the ticket's, as soon as its client's turn comes and there is room; what to wait for, if
        it is not now.
        """
        caller = ticket.caller
        if caller not in self._waiting and self.parsed.room(caller) >= cost:
            self._charge(ticket, cost)
            return None
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append((ticket, cost, turn))
        return turn

    def forget(self, ticket: Ticket) -> None:
        self.requests.give(ticket.caller)
        self.held.give(ticket.caller, ticket.size)
        self.parsed.give(ticket.caller, ticket.cost)
        streams = self._streams.get(ticket.caller, {})
        streams.pop(ticket, None)
        if not streams:
            self._streams.pop(ticket.caller, None)
        self.turns.end(ticket)
        self._serve()

    def _serve(self) -> None:
        """Let in what waits and fits: one of each client's, by turns, until nothing more does."""
        served = True
        while served:
            served = False
            for caller in list(self._waiting):
                queue = self._waiting[caller]
                while queue and (queue[0][2].done() or queue[0][0].closed):
                    queue.popleft()
                if queue and self.parsed.room(caller) >= queue[0][1]:
                    ticket, cost, turn = queue.popleft()
                    self._charge(ticket, cost)
                    turn.set_result(None)
                    served = True
                    self._waiting[caller] = self._waiting.pop(caller)  # now the last
                if not queue:
                    del self._waiting[caller]

    def _charge(self, ticket: Ticket, cost: int) -> None:
        ticket.cost = cost
        self.parsed.take(ticket.caller, cost)


class Working(Middleware):
    """Keeps a request's ticket while it is worked on, whether or not its client still waits."""

    async def __call__(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        if context.type != "request":
            return await call_next(context)
        with hold():
            return await call_next(context)


def hold() -> contextlib.AbstractContextManager[None]:
    """While this lasts, something works on the request under way."""
    ticket = TICKET.get()
    return _NOTHING if ticket is None or ticket.closed else ticket.hold()


_NOTHING = contextlib.nullcontext()


def estimate(body: bytes) -> int:
    """What JSON costs once it is parsed: a value is an object of its own, however few bytes it has."""
    return PER_BYTE * len(body) + PER_VALUE * (len(body) - len(body.translate(None, VALUES)))
