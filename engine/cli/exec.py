"""`go-ent exec`: run code in the sandbox."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic_core import to_json

from engine.cli import UsageError
from engine.cli.signals import interrupted_by_signals
from engine.cli.texts import say
from engine.outcomes import EXIT_CODES
from sandbox import Limits, Run, Sandbox
from sandbox.images.project import project_image


def exec_code(
    file: Annotated[str | None, Parameter(help="A file of Python code, or - for stdin.", allow_leading_hyphen=True)] = None,
    /,
    *,
    code: Annotated[str | None, Parameter(name=["-c", "--code"], help="The code itself.", allow_leading_hyphen=True)] = None,
    input: Annotated[
        str, Parameter(help="A JSON object: its members are variables of the code. @FILE reads a file.", allow_leading_hyphen=True)
    ] = "{}",
    timeout: Annotated[float | None, Parameter(help="Wall time in seconds.")] = None,
    cpu: Annotated[float | None, Parameter(help="CPU time in seconds.")] = None,
    memory: Annotated[int | None, Parameter(help="Memory in MB, the image's own included.")] = None,
    fuel: Annotated[int | None, Parameter(help="Instructions: the same code costs the same anywhere.")] = None,
    grant: Annotated[list[str] | None, Parameter(help="Narrow what the code may call; may be given more than once.")] = None,
    yes: Annotated[bool, Parameter(negative="", help="Approve the calls that need approval.")] = False,
    json_: Annotated[bool, Parameter(name="--json", negative="", help="Print the whole run as one JSON object.")] = False,
) -> int:
    """Run Python code in the sandbox and print what it printed and its value.

    In a project (a folder with `.go-ent`, or below one) the code may call the tools that the project grants.

    The value is that of the last expression, or of a top-level `return`: text as it is, anything else as JSON.
    The exit code is 0 only for a run that completed; each other status has one of its own.
    """
    source = _source(file, code)
    inputs = read_inputs(input)
    chosen = {"timeout_s": timeout, "cpu_s": cpu, "memory_mb": memory, "fuel": fuel}
    limits = Limits(**{name: value for name, value in chosen.items() if value is not None})
    try:
        run, recorded = asyncio.run(_run(source, inputs, limits, grant, yes))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    print_run(run, whole=json_, recorded=recorded)
    return EXIT_CODES[run.status]


def _source(file: str | None, code: str | None) -> str | bytes:
    if file is not None and file != "-" and file.startswith("-"):
        raise UsageError(f"unknown option {file}")
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


async def _run(source: str | bytes, inputs: dict[str, Any], limits: Limits, grant: list[str] | None, yes: bool) -> tuple[Run, bool]:
    """The run, and whether it is on record: it is in a project."""
    from composer.folders import STATE, find_project

    project = find_project(".")
    if (project / STATE).is_dir():
        return await _run_in(project, source, inputs, limits, grant, yes), True
    image = await asyncio.to_thread(project_image, Path.cwd())
    box = Sandbox(limits=limits, workers=1, image=image)
    with interrupted_by_signals(box):
        async with box:
            return await box.run(source, inputs), False


async def _run_in(project: Path, source: str | bytes, inputs: dict[str, Any], limits: Limits, grant: list[str] | None, yes: bool) -> Run:
    """Code mode: the project's tools, grants and journal. Limits that were given replace the project's."""
    from dataclasses import replace

    from composer import Composer
    from composer.config import read_config
    from engine.guests import GuestOrder
    from engine.source import guests_for

    config = read_config(project)
    chosen = {name: getattr(limits, name) for name in limits.model_fields_set}
    config = replace(config, limits=config.limits.model_copy(update=chosen))
    composer = await asyncio.to_thread(Composer, project, config=config, workers=1)
    approver = approve_all if yes else None
    async with composer, guests_for(composer) as guests:
        with interrupted_by_signals(composer.box):
            try:
                code = source if isinstance(source, str) else source.decode()
                order = GuestOrder(
                    code=code, inputs=inputs, grants=None if grant is None else tuple(grant), limits=chosen or None, cut=False
                )
            except ValueError:  # no text, so no code: the sandbox says what is wrong with it
                return await composer.code.execute(source, inputs, cut=False)
            return await guests.run(order, approver=approver)


async def approve_all(spec: object, arguments: object) -> bool:
    return True


def print_run(run: Run, *, whole: bool = False, recorded: bool = False) -> None:
    """A run for people, or *whole* as JSON. One that is *recorded* can be gone on with."""
    if whole:
        print(run.model_dump_json())
        return
    sys.stdout.write(run.stdout)
    if run.result is not None:
        if run.stdout and not run.stdout.endswith("\n"):
            sys.stdout.write("\n")
        print(run.result if isinstance(run.result, str) else to_json(run.result, inf_nan_mode="null").decode())
    sys.stdout.flush()
    for pending in run.pending:
        arguments = to_json(pending.arguments).decode()
        say(f"waits for approval: {pending.tool} with {arguments[:500]}: {pending.reason}", err=True)
    if run.pending and recorded:
        say(f"decide: go-ent approve {run.id}, or go-ent reject {run.id}", err=True)
        say(f"then go on: go-ent resume {run.id} (--yes approves all)", err=True)
    elif run.pending:
        say("nothing goes on by itself: run it again with --yes to approve these calls", err=True)
    if run.error is not None:
        error = run.error
        say(error.traceback if error.traceback and error.line is not None else f"{error.kind}: {error.message}", err=True)
        if run.status not in ("error", error.kind):
            say(f"status: {run.status}" + (f", line {error.line}" if error.line is not None else ""), err=True)
        if error.hint:
            say(f"hint: {error.hint}", err=True)
    if recorded and run.status in ("interrupted", "timeout", "cpu_limit", "crashed"):
        say(f"go on with it: go-ent resume {run.id}", err=True)
