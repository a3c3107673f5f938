"""Questions to the person at the terminal: spending beyond the budget, and calls that need approval."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from go_ent.engine.cli.terminal.output import plain, say, screen, short
from go_ent.waiting import ended, first_of

if TYPE_CHECKING:
    from go_ent.composer import ToolSpec
    from go_ent.engine.core.errors import BudgetExceeded
    from go_ent.sandbox import Limits

YesFlag = Annotated[
    bool, Parameter(negative="", help="Approve spending over the budget and tool calls that need approval.")
]
MAX_ANSWER = 4096
PATIENCE = 0.7  # of a run's wall time
MOST_SHOWN = 4000  # characters of arguments


def at_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def approve_all(spec: object, arguments: object) -> bool:
    return True


async def approve_spend(over: BudgetExceeded) -> bool:
    return True


def is_yes(answer: str) -> bool:
    return answer.strip().lower() in ("y", "yes")


def is_no(answer: str) -> bool:
    return answer.strip().lower() in ("n", "no")


class Person:
    """Decides, one question at a time. Set `stopping`, and nothing more is asked, nor waited for."""

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        self._patience_s: float | None = None
        self._turn = asyncio.Lock()

    async def __call__(self, over: BudgetExceeded) -> bool:
        """Whether to go on beyond the budget: y does, anything else does not."""
        return is_yes(await self._ask(f"\n{over.scope} budget: {over.why}", "go on? [y/N] ") or "")

    def wait_for(self, limits: Limits) -> None:
        """Ask about calls for no longer than a run with these limits can wait; then the call is left waiting on
        record.
        """
        self._patience_s = None if limits.timeout_s is None else limits.timeout_s * PATIENCE

    async def approve(self, spec: ToolSpec, arguments: dict[str, Any]) -> bool | None:
        """Whether a call may be made: y makes it, n refuses it, and anything else leaves it to be decided later."""
        about = f"\n{short(spec.name)} with {whole(arguments)} needs approval"
        answer = await self._ask(about, "make the call? [y/n, Enter: later] ", self._patience_s)
        if self.stopping.is_set():  # the run is interrupted, and with it the call: it is not left waiting for approval
            await asyncio.get_running_loop().create_future()
        return None if answer is None else True if is_yes(answer) else False if is_no(answer) else None

    async def _ask(self, about: str, question: str, patience_s: float | None = None) -> str | None:
        async with self._turn:
            if self.stopping.is_set():
                return None
            say(about, err=True)
            say(question, err=True, end="")
            answer = asyncio.ensure_future(_line())
            try:
                await first_of(answer, self.stopping, timeout_s=patience_s)
                if self.stopping.is_set():
                    return None
                if not answer.done():
                    say("no answer, so it waits", err=True)
                    return None
                line = answer.result()
                if not line.endswith("\n"):  # the end of the input, in the middle of a line
                    say("", err=True)
                return line
            finally:
                screen.open = False
                await ended(answer)


async def _line() -> str:
    """A line from stdin, by the event loop itself: a thread that reads can't be called back from it."""
    from go_ent.engine.cli.terminal.background import in_background

    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
    answer: asyncio.Future[str] = loop.create_future()
    held = b""

    def read() -> None:
        nonlocal held
        try:
            data = os.read(fd, MAX_ANSWER)
        except OSError:  # the terminal is gone
            data = b""
        held += data
        if not answer.done() and (not data or b"\n" in held or len(held) > MAX_ANSWER):
            answer.set_result(held.decode("utf-8", "replace"))

    try:
        loop.add_reader(fd, read)
    except (NotImplementedError, PermissionError):  # a loop, or a file, that can't be watched
        return await in_background(lambda: sys.stdin.readline(MAX_ANSWER))
    try:
        return await answer
    finally:
        loop.remove_reader(fd)


def whole(arguments: dict[str, Any] | None) -> str:
    """Arguments that somebody has to decide about: nothing of them goes unseen without being said."""
    if arguments is None:
        return "arguments that are too long to be shown (name the call to approve it)"
    text = plain(json.dumps(arguments, ensure_ascii=True, default=str))
    if len(text) <= MOST_SHOWN:
        return text
    half = MOST_SHOWN // 2
    return f"{text[:half]} …[{len(text) - 2 * half} characters are not shown here: --json has them]… {text[-half:]}"
