"""The protocol of a peer: what runs untrusted Python, set up as a careful reader of its documentation would.

A program leaves its answer, a JSON value, in the variable `result`. This module is imported by every peer's host, some of
which have an interpreter and packages of their own: it uses the standard library alone.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Status = Literal["completed", "error", "timeout", "memory", "crashed"]

MEMORY_MB = 128  # the memory limit of every peer that has one
OUTPUT_BYTES = 1 << 20

# A peer that runs code in the host's own interpreter is told what may be imported. These are what everyday programs
# import, less what is a way out by its very purpose: os, sys, io, threading, asyncio, importlib and the like.
HARMLESS_MODULES = (
    "abc base64 binascii bisect collections collections.abc contextlib csv dataclasses datetime decimal enum fractions "
    "functools hashlib heapq hmac itertools json math operator random re statistics string textwrap time typing zlib zoneinfo"
).split()


@dataclass(frozen=True)
class Outcome:
    """How a program ended; `value` is its `result` if it completed, `note` what the peer said if it did not."""

    status: Status
    value: Any = None
    note: str = ""


class Peer(Protocol):
    """Something that runs untrusted Python. A run sees nothing of the runs before it."""

    tool_program: str | None
    """A program that calls the host's `lookup` as often as the input `count` says; None if programs can't call the host."""

    def available(self) -> str | None:
        """Why it can't be used here; None if it can."""

    def start(self) -> None:
        """Get ready, as a server that will run many programs would."""

    def run(self, code: str, inputs: Mapping[str, Any], timeout: float) -> Outcome:
        """Run a program that finds *inputs* as variables, for *timeout* seconds at most."""

    def close(self) -> None:
        """End whatever was started."""


def lookup(n: int) -> int:
    """The host's tool."""
    return n + 1


def calling(expression: str, before: str = "") -> str:
    """A peer's `tool_program`, given how it calls `lookup` with `n`."""
    return f"{before}for n in range(count):\n    result = {expression}\n"


def missing(module: str, package: str) -> str | None:
    """Why *module* can't be imported, for `Peer.available`."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        return f"{package}: {error}"
    return None


def with_inputs(code: str, inputs: Mapping[str, Any]) -> str:
    """The program with its inputs written before it, for peers that take source alone."""
    if not inputs:
        return code
    return f"import json as _json\nglobals().update(_json.loads({json.dumps(dict(inputs))!r}))\n{code}"


def printing_result(code: str) -> str:
    """The program with its answer printed as the last line, for peers that give back output alone."""
    return f"{code}\nimport json as _json\nprint('\\n' + _json.dumps(result))"


def error_line(text: str) -> str:
    """What a traceback comes down to."""
    lines = text.strip().splitlines() or [""]
    return next(
        (line for line in reversed(lines) if re.match(r"[\w.]*(Error|Exception|Exit|Interrupt)\b", line)), lines[-1]
    )


def last_line(output: str) -> Any:
    """The answer that `printing_result` printed."""
    return json.loads(output.rstrip("\n").rpartition("\n")[2])
