"""The one place where time, randomness and the order of completions enter a run.

A guest has no other source of any of them: its WASI clocks and random imports are answered here, and completions
are handed over here. Replace the seam and a run can be recorded, or replayed exactly.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable
from typing import Final

from go_ent.sandbox.worker.end import Stop
from go_ent.sandbox.worker.tape import Taped

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


# The clock of a recorded run moves in steps, so that not every reading has to be kept; between them each adds a
# nanosecond.
GRAIN_NS: Final = 100_000
MAX_GRAIN_NS: Final = 100_000_000
STEPS_OF_A_GRAIN: Final = (
    64  # then it doubles, until the next crossing: a loop that watches the clock can't fill the record
)
MUCH_HEARD: Final = 64 << 10  # bytes that wait for no call to be recorded with
GOT_SO_FAR: Final = b"[[],[0]]"  # a message without a call, to have recorded what was heard


STEP, SENT, WALL, TOLD, NOTHING, BROKEN = range(6)


class Heard:
    """What a recorded run heard, one thing after the other: `kind`, and its numbers.

    It was kept where others may have written: what is none of ours is broken, and stays the next thing for ever.
    """

    _ITEM = re.compile(
        rb"\[(?:(?P<reads>\d{1,18}),(?P<at>\d{1,18})|(?P<told>\d{1,18}),\[(?P<ids>(?:\d{1,16}(?:,\d{1,16})*)?)\]|\[(?P<wall>\d{1,19})\])?\](?:,|\Z)"
    )

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._position = 0
        self.next()

    def next(self) -> None:
        self.kind, self.reads, self.ns = NOTHING, 0, 0
        self.ids: list[int] = []
        if self._position == len(self._text):
            return
        found = self._ITEM.match(self._text, self._position)
        if found is None:
            self.kind = BROKEN
            return
        self._position = found.end()
        if found["told"] is not None:
            self.kind, self.ns = TOLD, int(found["told"])
            self.ids = [int(call_id) for call_id in found["ids"].split(b",") if call_id]
        elif found["at"] is not None:
            self.kind, self.reads, self.ns = STEP, int(found["reads"]), int(found["at"])
        elif found["wall"] is not None:
            self.kind, self.ns = WALL, int(found["wall"])
        else:
            self.kind = SENT


class TapedSeam(Seam):
    """A seam that writes down what the guest hears and, in a replay, first says all of it again.

    What is heard, in JSON: `[i, ns]`, at the i-th reading since the last crossing the clock stood at ns; `[]`, a
    message went out; `[ns, [ids]]`, a crossing was answered at ns with the completions of these calls; `[[ns]]`, from
    here on the time of day counts from ns: a replayed run goes on at another time. Each message is sent with what was
    heard since the last, and the record of a run ends with a message: there the replay ends, and nowhere before.
    """

    def __init__(self, seed: bytes, taped: Taped) -> None:
        super().__init__(seed)
        self._wall = taped.wall_ns
        self._base = self._last = 1
        self._reads = 0
        self._base_reads = 0
        self._grain = GRAIN_NS
        self._steps = 0
        self._log: list[bytes] = []
        self._log_size = 0
        self._held: dict[int, bytes] = {}
        self._made: set[int] = set()
        self._recorded = Heard(taped.heard or b"")
        self._live = taped.heard is None
        if not self._live:
            self._go_on()

    # -- the clocks

    def monotonic_ns(self) -> int:
        self._reads += 1
        if self._live:
            now = time.monotonic_ns() - self._started
            if now - self._base >= self._grain:
                self._step_to(max(now, self._last + 1))
                self._hear(b"[%d,%d]" % (self._reads, self._base))
                self._steps += 1
                if self._steps % STEPS_OF_A_GRAIN == 0:
                    self._grain = min(self._grain * 2, MAX_GRAIN_NS)
        elif self._recorded.kind == STEP and self._recorded.reads == self._reads:
            self._step_to(self._recorded.ns)
            self._recorded.next()
        self._last = self._base + self._reads - self._base_reads
        return self._last

    def _step_to(self, ns: int) -> None:
        self._base, self._base_reads = ns, self._reads

    def _hear(self, item: bytes) -> None:
        self._log.append(item)
        self._log_size += len(item) + 1

    # -- crossings

    def cross(
        self,
        wait: float | None,
        body: bytes,
        send: Callable[[bytes, bytes], None],
        receive: Callable[[float | None], bytes | None],
    ) -> bytes:
        """A crossing: `send` gets what was heard and a message, `receive` waits for a completion, for ever or for a
        time.
        """
        if self._live:
            if body or self._log_size > MUCH_HEARD:
                self._hear(b"[]")
                heard = b",".join(self._log)
                self._log.clear()
                self._log_size = 0
                send(heard, body or GOT_SO_FAR)
        else:
            self._replay_message(body, send)
        return self._hand_over_live(wait, receive) if self._live else self._hand_over_recorded(receive)

    def _replay_message(self, body: bytes, send: Callable[[bytes, bytes], None]) -> None:
        sent = self._recorded.kind == SENT
        if body or sent:
            send(b"", body or GOT_SO_FAR)
            if not sent:
                raise Stop("diverged")
            self._recorded.next()
            self._made.update(_calls(body))
            self._go_on()

    def _go_on(self) -> None:
        """Past a message: there the time of day may have been set anew, and there a record ends."""
        while self._recorded.kind == WALL:
            self._wall = self._recorded.ns
            self._recorded.next()
        if self._recorded.kind == NOTHING:
            self._live = True
            self._started = time.monotonic_ns() - self._last
            self._wall = max(self._wall, time.time_ns() - self._last)
            self._hear(b"[[%d]]" % self._wall)

    def _hand_over_recorded(self, receive: Callable[[float | None], bytes | None]) -> bytes:
        ns, wanted, each = self._recorded.ns, self._recorded.ids, set(self._recorded.ids)
        if self._recorded.kind != TOLD or not self._made >= each or len(wanted) != len(each):
            raise Stop("diverged")
        self._recorded.next()
        while not self._held.keys() >= each:
            self._hold(receive(None))
        self._made -= each
        return self._hand_over(ns, [self._held.pop(call_id) for call_id in wanted])

    def _hand_over_live(self, wait: float | None, receive: Callable[[float | None], bytes | None]) -> bytes:
        if self._held:
            ids, completions = b",".join(b"%d" % call_id for call_id in self._held), list(self._held.values())
            self._held.clear()
        elif completion := receive(wait):
            ids, completions = b"%d" % _number(completion), [completion]
        else:
            ids, completions = b"", []
        now = max(time.monotonic_ns() - self._started, self._last + 1)
        self._hear(b"[%d,[%b]]" % (now, ids))
        return self._hand_over(now, completions)

    def _hold(self, completion: bytes | None) -> None:
        if completion:
            self._held[_number(completion)] = completion

    def _hand_over(self, ns: int, completions: list[bytes]) -> bytes:
        self._base = self._last = ns
        self._reads = self._base_reads = self._steps = 0
        self._grain = GRAIN_NS
        return b"%.9f\n%b" % (ns / 1e9, b"[%b]" % b",".join(completions) if completions else b"")


def _number(completion: bytes) -> int:
    """The call that a completion is of."""
    return int(completion[1 : completion.index(b",")])


def _calls(body: bytes) -> list[int]:
    """The calls that a message makes."""
    try:
        return [call[0] for call in json.loads(body)[0] if type(call[0]) is int] if body else []
    except (ValueError, TypeError, LookupError, RecursionError):
        raise Stop("protocol") from None


def guest_seed(seed: bytes) -> int:
    """The seed of the guest's `random` module: always of the same length, so that fuel does not depend on it."""
    return 10**18 + int.from_bytes(seed[:7], "big")
