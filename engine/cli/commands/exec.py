"""`go-ent exec`: run code in the sandbox."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from go_ent.engine.cli import UsageError, app
from go_ent.engine.cli.terminal.advice import in_commands
from go_ent.engine.cli.terminal.ask import Person, approve_all, at_terminal
from go_ent.engine.cli.terminal.output import aside, plain, say, show_json, tty
from go_ent.engine.cli.terminal.progress import ProgressLine, QuietFlag, image_ready
from go_ent.engine.cli.terminal.signals import executions, say_interrupted, stopped_by_signals
from go_ent.engine.cli.terminal.usage_errors import unknown_option

if TYPE_CHECKING:
    from go_ent.engine.guest_runs.runs import Guests
    from go_ent.sandbox import Limits, Run, Sandbox


def exec_command(
    file: Annotated[str | None, Parameter(help="A Python file, or - for stdin.", allow_leading_hyphen=True)] = None,
    /,
    *,
    code: Annotated[str | None, Parameter(name=["-c", "--code"], help="The code.", allow_leading_hyphen=True)] = None,
    input: Annotated[
        str,
        Parameter(
            help="A JSON object whose members become variables of the code; @FILE reads a file.",
            allow_leading_hyphen=True,
        ),
    ] = "{}",
    timeout: Annotated[float | None, Parameter(help="Wall time in seconds.")] = None,
    cpu: Annotated[float | None, Parameter(help="CPU time in seconds.")] = None,
    memory: Annotated[int | None, Parameter(help="Memory in MB, including the image's own.")] = None,
    fuel: Annotated[
        int | None, Parameter(help="Instructions; the same code uses the same number on any machine.")
    ] = None,
    grant: Annotated[
        list[str] | None, Parameter(help="Let the code call only these tools, of those granted; repeatable.")
    ] = None,
    yes: Annotated[bool, Parameter(negative="", help="Approve calls that need approval.")] = False,
    quiet: QuietFlag = False,
    json_: Annotated[
        bool, Parameter(name="--json", negative="", help="Print the whole run as one JSON object.")
    ] = False,
) -> int:
    """Run Python code in the sandbox and print what it printed and its value.

    In a project (a folder with `.go-ent`, or below one) the code may call the tools that the project grants.

    The value is that of the last expression, or of a top-level `return`: text as it is, anything else as JSON.
    The exit code is 0 only for a run that completed; each other status has one of its own.
    """
    from go_ent.composer.project.files import STATE, find_project
    from go_ent.engine.core.outcomes import EXIT_CODES
    from go_ent.sandbox import Limits, Sandbox

    source = _source(file, code)
    inputs = read_inputs(input)
    chosen = {"timeout_s": timeout, "cpu_s": cpu, "memory_mb": memory, "fuel": fuel}
    limits = Limits(**{name: value for name, value in chosen.items() if value is not None})
    project = find_project(".")
    recorded = (project / STATE).is_dir()
    image = image_ready(
        project if recorded else Path.cwd(), quiet=quiet or json_, kinds=("plain",) if fuel is None else ("fuel",)
    )
    try:
        with ProgressLine("running", quiet=quiet or json_):
            if recorded:
                run = asyncio.run(_run_in(project, source, inputs, limits, grant, yes=yes, quiet=quiet))
            else:
                run = asyncio.run(_run(Sandbox(limits=limits, workers=1, image=image), source, inputs))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    print_run(run, project=project if recorded else None, whole=json_, file=file)
    return EXIT_CODES[run.status]


def _source(file: str | None, code: str | None) -> str | bytes:
    if file is not None and file != "-" and file.startswith("-"):
        raise UsageError(unknown_option(app, sys.argv[1:]) or f"unknown option: {file}.")
    if (file is None) == (code is None):
        given = "code was given twice" if file is not None else "exec needs code"
        raise UsageError(f"{given}: -c CODE, a FILE, or - for stdin (one of them)")
    if code is not None:
        return code
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(str(file)).read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None


def read_inputs(text: str) -> dict[str, Any]:
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            said = error.strerror if isinstance(error, OSError) else error
            raise UsageError(f"--input {text}: {said}") from None
    try:
        inputs = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--input is not JSON: {error}") from None
    if not isinstance(inputs, dict):
        raise UsageError(f"--input must be a JSON object like '{{\"name\": 1}}', not {type(inputs).__name__}")
    return inputs


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


async def _run(box: Sandbox, source: str | bytes, inputs: dict[str, Any]) -> Run:
    """Outside a project: no tools, and nothing on record."""
    with interrupted_by_signals(box):
        async with box:
            return await box.run(source, inputs)


async def _run_in(
    project: Path,
    source: str | bytes,
    inputs: dict[str, Any],
    limits: Limits,
    grant: list[str] | None,
    *,
    yes: bool,
    quiet: bool,
) -> Run:
    """Code mode: the project's tools, grants and journal. Limits that were given replace the project's."""
    from dataclasses import replace

    from go_ent.composer import Composer
    from go_ent.composer.config import read_config
    from go_ent.engine.cli.commands.recorded import guests_for, say_unmatched
    from go_ent.engine.guest_runs.runs import GuestOrder

    config = read_config(project)
    chosen = {name: getattr(limits, name) for name in limits.model_fields_set}
    config = replace(config, limits=config.limits.model_copy(update=chosen))
    composer = await asyncio.to_thread(Composer, project, config=config, workers=1)
    person = Person() if at_terminal() else None
    if person is not None:
        person.wait_for(config.limits)
    approver = approve_all if yes else person.approve if person is not None else None
    async with composer, guests_for(composer) as guests:
        if not quiet:
            await say_unmatched(composer, grant)
        with interrupted_by_signals(composer.box, guests, person):
            try:
                code = source if isinstance(source, str) else source.decode()
                order = GuestOrder(
                    code=code,
                    inputs=inputs,
                    grants=None if grant is None else tuple(grant),
                    limits=chosen or None,
                    cut=False,
                )
            except ValueError:  # no text, so no code: the sandbox says what is wrong with it
                return await composer.code.execute(source, inputs, cut=False)
            return await guests.run(order, approver=approver)


def interrupted_by_signals(
    box: Sandbox, guests: Guests | None = None, person: Person | None = None
) -> AbstractContextManager[None]:
    """The first signal interrupts what runs in *box*, and what *guests* have on record."""

    def stop() -> bool:
        if person is not None:
            person.stopping.set()
        stopped = bool(guests.lifecycle.watch.stop_all()) if guests is not None else False
        if not stopped and box.running:
            box.interrupt_all()
            return True
        return stopped

    return stopped_by_signals(stop, lambda: executions(guests.lifecycle.watch.ids if guests is not None else ()))


def print_run(
    run: Run,
    *,
    project: Path | None,
    whole: bool = False,
    file: str | None = None,
    is_tool: bool = False,
    bare: bool = False,
) -> None:
    """A run for people, or *whole* as JSON. *project* is where it is on record; *file* is what its code was read from.

    What a tool has printed goes to stderr: its result stands alone. A *bare* error has no traceback: the code is ours.
    """
    recorded = project is not None
    if whole:
        if run.error is not None:
            run.error.hint = run.error.hint_in(in_commands)
        show_json(run.model_dump_json())
    else:
        _print_result(run, is_tool=is_tool)
        _say_pending(run, recorded=recorded)
        _say_error(run, file, bare=bare)
    if run.status == "interrupted" and recorded:
        say_interrupted(run.id)
    elif run.status == "interrupted":
        say(
            "interrupted; it was not on record: go-ent init makes this folder a project, where runs can be resumed",
            err=True,
        )
    elif project is not None and not whole and run.status not in ("completed", "paused") and _can_help(run, project):
        say(f"to resume: go-ent resume {run.id}", err=True)


def _can_help(run: Run, project: Path) -> bool:
    """Whether a resume could end in another way."""
    from go_ent.engine.storage.file_storage import open_store

    if run.status == "cpu_limit":  # what it has computed is computed again, within the same limit
        return False
    return open_store(project).load(run.id).resumable


def _print_result(run: Run, *, is_tool: bool) -> None:
    from pydantic_core import to_json

    made = plain if tty(sys.stdout) else str
    if is_tool and run.stdout:
        say(run.stdout, err=True, end="" if run.stdout.endswith("\n") else "\n")
    with aside():
        if not is_tool:
            sys.stdout.write(made(run.stdout))
        if run.result is not None:
            if not is_tool and run.stdout and not run.stdout.endswith("\n"):
                sys.stdout.write("\n")
            print(
                made(run.result if isinstance(run.result, str) else to_json(run.result, inf_nan_mode="null").decode())
            )
        sys.stdout.flush()


def _say_pending(run: Run, *, recorded: bool) -> None:
    for pending in run.pending:
        arguments = json.dumps(pending.arguments, default=str, separators=(",", ":"))
        say(f"waits for approval: {pending.tool} with {arguments[:500]}: {pending.reason}", err=True)
    if run.pending and recorded:
        say(f"decide: go-ent approve {run.id}, or go-ent reject {run.id}", err=True)
        say(f"then go on: go-ent resume {run.id} (--yes approves all)", err=True)
    elif run.pending:
        say("nothing goes on by itself: run it again with --yes to approve these calls", err=True)


def _say_error(run: Run, file: str | None, *, bare: bool) -> None:
    error = run.error
    if error is None:
        return
    if run.status != "interrupted":
        traceback = error.traceback if error.line is not None and not bare else None
        if traceback and file is not None and file != "-":
            traceback = re.sub(r'^  File "code\.py"', lambda _: f'  File "{file}"', traceback, flags=re.MULTILINE)
        say(traceback or f"{error.kind}: {error.message}", err=True)
        if run.status not in ("error", error.kind):
            line = f", line {error.line}" if error.line is not None and not bare else ""
            say(f"status: {run.status}{line}", err=True)
    if not bare and (hint := error.hint_in(in_commands)):
        say(f"hint: {hint}", err=True)
