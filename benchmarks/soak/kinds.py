"""What is run: nine bad kinds, a twentieth of all each, and good ones for the rest. Every one says what has to come of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

SHARE = 20  # each bad kind is one in so many
HUGE = 5 << 20  # bytes of a result, of which a server hands over one fifth at the most
FLOOD = 60_000  # lines of output: 6 MB, of which a run may have 256 KB

# What a composed tool is like: one that calls a tool of an MCP server, and one whose result is too large.
COMPOSED = {
    "sum_of": '''# /// tool
# name = "sum_of"
# requires = ["up.add"]
# ///
import asyncio


async def sum_of(n: int) -> int:
    """The sum of n and the two numbers after it."""
    return sum(await asyncio.gather(*(tools.up.add(a=n, b=i) for i in range(3))))
''',
    "endless": f'''# /// tool
# name = "endless"
# ///
def endless(n: int) -> str:
    """More than is handed over."""
    return str(n) * ({HUGE} // len(str(n)))
''',
}


@dataclass(frozen=True, slots=True)
class Order:
    """One call of the server, and what has to come of it."""

    kind: str
    tool: str
    arguments: dict[str, Any]
    status: str  # that the answer must have
    recorded: str  # that the execution must have
    result: Any = None  # that a completed run must have, where it is not None
    says: str = ""  # that must be in the answer's error, hint, output or result
    cancel: bool = False  # once it is under way

    @property
    def good(self) -> bool:
        return self.kind in GOOD


def code(kind: str, text: str, n: int, status: str, recorded: str, **more: Any) -> Order:
    limits = more.pop("limits", None)
    arguments = {"code": text, "inputs": {"n": n}, **({"limits": limits} if limits else {})}
    return Order(kind, "code_execute", arguments, status, recorded, **more)


def plain(n: int) -> Order:
    return code("1 + 1", "1 + n", n, "completed", "completed", result=1 + n)


def one_call(n: int) -> Order:
    return code("a tool call", "await tools.up.add(a=n, b=1)", n, "completed", "completed", result=n + 1)


def gathered(n: int) -> Order:
    text = "import asyncio\nsum(await asyncio.gather(*(tools.up.add(a=n, b=i) for i in range(5))))"
    return code("gather over tools", text, n, "completed", "completed", result=5 * n + 10)


def composed(n: int) -> Order:
    """By its own name, as a client sees it."""
    return Order("a composed tool", "sum_of", {"n": n}, "completed", "completed", result=3 * n + 3)


def raising(n: int) -> Order:
    return code("raising", "rows = [n]\nrows[n + 1]", n, "error", "failed", says="IndexError")


def refused(n: int) -> Order:
    return code(
        "refused", "import socket\nsocket.create_connection(('127.0.0.1', n))", n, "refused", "failed", says="socket"
    )


def spinning(n: int) -> Order:
    return code("spinning", "while True:\n    n += 1", n, "cpu_limit", "failed", limits={"cpu_s": 0.2}, says="CPU")


def hanging(n: int) -> Order:
    return code(
        "hanging in a tool",
        "await tools.up.hang(n=n)",
        n,
        "timeout",
        "failed",
        limits={"timeout_s": 0.5},
        says="timeout_s=0.5",
    )


def hog(n: int) -> Order:
    return code(
        "memory hog",
        "kept = []\nwhile True:\n    kept.append(bytearray(1 << 20))",
        n,
        "memory_limit",
        "failed",
        limits={"memory_mb": 64},
    )


def flood(n: int) -> Order:
    return code(
        "output flood",
        f"for i in range({FLOOD}):\n    print('x' * 100)\nn",
        n,
        "completed",
        "completed",
        result=n,
        says="… [cut: ",
    )


def recursion(n: int) -> Order:
    return code(
        "deep recursion",
        "def deeper(k):\n    return deeper(k + 1)\ndeeper(n)",
        n,
        "error",
        "failed",
        says="RecursionError",
    )


def huge(n: int) -> Order:
    """Every other one by a composed tool: a program wants the whole value, or a failure."""
    if n % 2:
        return Order("huge result", "endless", {"n": n}, "result_limit", "failed")
    return code("huge result", f"'x' * {HUGE}", n, "completed", "completed", says="… [cut: ")


def interrupted(n: int) -> Order:
    return code("interrupted by the client", "await tools.up.hang(n=n)", n, "interrupted", "interrupted", cancel=True)


GOOD: dict[str, Callable[[int], Order]] = {
    "1 + 1": plain,
    "a tool call": one_call,
    "gather over tools": gathered,
    "a composed tool": composed,
}
BAD: tuple[Callable[[int], Order], ...] = (
    raising,
    refused,
    spinning,
    hanging,
    hog,
    flood,
    recursion,
    huge,
    interrupted,
)


@dataclass
class Orders:
    """All that is to be run, in an order that a seed decides; the shares are exact in every hundred."""

    runs: int
    seed: int
    _left: list[Callable[[int], Order]] = field(default_factory=list)

    def __post_init__(self) -> None:
        chance, good = random.Random(self.seed), tuple(GOOD.values())
        made: list[Callable[[int], Order]] = []
        while len(made) < self.runs:
            hundred = [one for one in BAD for _ in range(100 // SHARE)]
            hundred += [good[i % len(good)] for i in range(100 - len(hundred))]
            chance.shuffle(hundred)
            made += hundred
        self._left = made[: self.runs]

    def orders(self) -> list[Order]:
        return [make(number) for number, make in enumerate(self._left)]
