"""What the commands of the engine share: opening it, Ctrl-C, events on the terminal, results."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from go_ent.engine.cli import UsageError
from go_ent.engine.cli.terminal.ask import (
    MAX_ANSWER,
    Person,
    YesFlag,
    approve_all,
    approve_spend,
    at_terminal,
    is_yes,
)
from go_ent.engine.cli.terminal.output import STYLES, is_terminal, said_once, say, short, show_json
from go_ent.engine.cli.terminal.progress import ProgressLine, tell
from go_ent.engine.cli.terminal.render import show_result
from go_ent.engine.cli.terminal.signals import Going, executions, say_interrupted, stopped_by_signals
from go_ent.engine.cli.terminal.tables import hanging, table
from go_ent.engine.core.ids import short_id

if TYPE_CHECKING:
    from go_ent.engine.core.models import Event, TaskResult
    from go_ent.engine.engine import Engine
    from go_ent.engine.executions.state import ExecutionState

__all__ = [
    "MAX_ANSWER",
    "HereFlag",
    "JsonFlag",
    "LabelOption",
    "Telling",
    "YesFlag",
    "at_terminal",
    "dollars",
    "finish",
    "is_yes",
    "say_kept",
    "table",
    "with_engine",
]
HereFlag = Annotated[bool, Parameter(negative="", help="Run it in this process, not by a worker of the fleet.")]
LabelOption = Annotated[str | None, Parameter(help="Run it on a worker of the fleet that has this label.")]
JsonFlag = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")]


def refuse_both(*, here: bool, label: str | None) -> None:
    if here and label is not None:
        raise UsageError("--here runs it in this process, --label somewhere else: choose one")


def with_engine(
    work: Callable[[Engine], Awaitable[int]],
    *,
    yes: bool = False,
    progress: str = "working",
    quiet: bool = False,
    going: list[Going] | None = None,
) -> int:
    """Do something with the engine of the project that this folder is in. *yes* stands for a person who approves.

    *progress* is what is going on; *going* is what ends by itself once it is told to stop, if that is
    more than executions.
    """

    from go_ent.composer.config import read_config
    from go_ent.engine.engine import Engine

    async def main() -> int:
        person = Person() if at_terminal() else None
        options: dict[str, Any] = {"ask": approve_spend, "approver": approve_all}
        if not yes:
            options = {} if person is None else {"ask": person, "approver": person.approve}
        engine = await asyncio.to_thread(Engine.open, ".", mode="cli", **options)
        if person is not None:
            person.stopping = engine.stopping
            person.wait_for((await asyncio.to_thread(read_config, engine.project)).limits)
        async with engine:
            with stopped_by_signals(
                lambda: bool(engine.stop_all() or going), lambda: going or executions(engine.lifecycle.watch.ids)
            ):
                return await work(engine)

    try:
        with ProgressLine(progress, quiet=quiet):
            return asyncio.run(main())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


class Telling:
    """Events as lines on stderr: the id at once, then each step; an agent's own words only on a terminal.

    On a terminal the progress line says which steps run.
    """

    def __init__(self, *, quiet: bool = False, told: bool = False, silent: bool = False) -> None:
        """*quiet* leaves the steps out, *silent* everything; *told* is whether the id was said."""
        self._quiet = quiet or silent
        self._words = is_terminal(sys.stderr)
        self._open = False  # a line of words that has not ended
        self._said = told or silent
        self._running: list[str] = []
        self._done = 0
        self._last = ""  # the words of the last step
        self._last_step: str | None = None
        self._failed = ""  # why the last step has failed, if all of that was told

    def __call__(self, event: Event) -> None:
        if not self._said:
            self._said = True
            self._line(f"execution {short_id(event.execution_id)}")
        if self._quiet:
            return
        match event.kind:
            case "status" if "strategy" in event.data:
                self._line(f"strategy {event.data['strategy']}: {event.data['reason']}")
            case "step":
                self._step(event)
            case "fallback" | "warning":
                self._line(f"[{event.task_id}] {short(event.text)}" if event.task_id is not None else short(event.text))
            case "tool":
                self._line(f"[{event.task_id}] uses {short(str(event.data.get('name', event.text)))}")
            case "text" if self._words:
                self._last = (self._last if self._last_step == event.task_id else "") + event.text
                self._last_step = event.task_id
                say(event.text, err=True, end="")
                self._open = not event.text.endswith("\n")

    def has_shown(self, output: str) -> bool:
        """Whether that stands on the terminal already, as the words of the last step: it need not stand there twice."""
        return self._words and is_terminal(sys.stdout) and self._last.strip() == output.strip()

    def untold(self, error: str) -> str:
        """What of an error does not stand on the terminal already: it ends with why a step has failed. A pipe gets
        it whole.
        """
        return error.removesuffix(f": {self._failed}") if self._failed and self._words else error

    def _step(self, event: Event) -> None:
        step, status = str(event.task_id), str(event.data.get("status", ""))
        if status == "failed":
            self._failed = event.text if short(event.text) == event.text else ""
        said = f"[{step}] {status}{f': {short(said_once(status, event.text))}' if event.text else ''}"
        self._line(hanging(said, 0, err=True) if status == "failed" else said, status)
        if status == "running":
            self._running.append(step)
        elif step in self._running:
            self._running.remove(step)
            self._done += 1
        running = ", ".join(map(short, self._running[:3])) + (
            f" and {len(self._running) - 3} more" if len(self._running) > 3 else ""
        )
        tell(f"{self._done} step{'' if self._done == 1 else 's'} done" + (f", running {running}" if running else ""))

    def _line(self, text: str, status: str = "") -> None:
        say(
            f"{chr(10) if self._open else ''}{text}",
            err=True,
            style=STYLES.get(status) if status != "running" else None,
        )
        self._open = False


def finish(engine: Engine, result: TaskResult, telling: Telling, *, json_: bool, quiet: bool = False) -> int:
    """Print a result, and the exit code for it."""
    from go_ent.engine.core.outcomes import EXIT_CODES, TASK_EXIT_CODES

    if json_:
        show_json(result.model_dump_json())
    elif result.output and not telling.has_shown(result.output):
        show_result(result.output)
    name = short_id(result.execution_id)
    paused = any(step.status == "paused" for step in result.steps)
    interrupted = any(step.status == "interrupted" for step in result.steps) or (
        engine.stopping.is_set() and not result.ok
    )
    if result.error and not (json_ or interrupted):  # in the words of the steps above it, and of `go-ent ps`
        say(f"{'paused' if paused else 'failed'}: {telling.untold(result.error)}", err=True)
    if interrupted:
        say_interrupted(result.execution_id)
    elif not json_ and paused:
        say(f"a call waits for approval: go-ent status {name} shows it", err=True)
        say(
            f"decide: go-ent approve {name}, or go-ent reject {name}",
            err=True,
        )
        say(f"then resume: go-ent resume {name} (--yes approves all)", err=True)
    elif not json_ and not result.ok and _can_help(engine.store.load(result.execution_id), result):
        say(f"to resume: go-ent resume {name}", err=True)
    elif not json_ and result.status == "NEEDS_REPLAN":
        say("a resume would fail in the same way: change the task, then run it again", err=True)
    if not json_ and not quiet:
        say_kept(result.execution_id, sum(len(step.files) for step in result.steps))
        say(_account(result), err=True)
    if interrupted:
        return EXIT_CODES["interrupted"]
    return EXIT_CODES["paused"] if paused else TASK_EXIT_CODES[result.status]


def _can_help(state: ExecutionState, result: TaskResult) -> bool:
    """Whether a resume could end in another way: the task need not change, and it is no guest that has failed all by
    itself.
    """
    alone = state.kind in ("tool", "code") and not state.calls and all(step.failure == "task" for step in result.steps)
    return state.resumable and result.status != "NEEDS_REPLAN" and not alone


def _account(result: TaskResult) -> str:
    if result.metrics is None:
        return "nothing ran"
    cost = "cost unknown" if result.metrics.cost_usd is None else f"${result.metrics.cost_usd:.4f}"
    tokens = (
        f"{result.metrics.tokens_used:,} tokens, {cost}, "
        if result.metrics.tokens_used or result.metrics.cost_usd
        else ""
    )
    return f"{tokens}{result.metrics.duration_ms / 1000:.1f} s"


def say_kept(execution_id: str, count: int) -> None:
    """Say where the files are that the runs of an execution left, if they left any."""
    files = "1 file is" if count == 1 else f"{count:,} files are"
    if count:
        say(f"{files} kept: go-ent output {short_id(execution_id)} --files lists them", err=True)


def dollars(value: float | None) -> str:
    return "-" if value is None else f"${value:.4f}"
