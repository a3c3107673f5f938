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
from go_ent.engine.cli.commands.shared import HereFlag, LabelOption, refuse_both
from go_ent.engine.cli.inputs.files import read_files, save_files
from go_ent.engine.cli.inputs.reading import read_inputs, read_stdin, refuse_ignored
from go_ent.engine.cli.terminal.advice import in_commands
from go_ent.engine.cli.terminal.ask import Person, approve_all, at_terminal
from go_ent.engine.cli.terminal.formats import Format, OutputFlag
from go_ent.engine.cli.terminal.output import aside, is_terminal, plain, say, short, show_json, tty
from go_ent.engine.cli.terminal.progress import ProgressLine, QuietFlag, image_ready
from go_ent.engine.cli.terminal.render import show_result
from go_ent.engine.cli.terminal.run_errors import show_marked
from go_ent.engine.cli.terminal.signals import executions, say_interrupted, stopped_by_signals
from go_ent.engine.cli.terminal.usage_errors import unknown_option
from go_ent.engine.core.ids import short_id
from go_ent.sandbox.worker.languages import SPOKEN, Language, by_suffix

if TYPE_CHECKING:
    from go_ent.engine.guest_runs.runs import Guests
    from go_ent.engine.storages import Storages
    from go_ent.sandbox import Limits, Run, Sandbox

MOST_NAMED = 20  # files
STDIN = re.compile(r"\bstdin\b")
MOST_STDIN = 16 << 20


def exec_command(
    file: Annotated[str | None, Parameter(help="A file, or - for stdin.", allow_leading_hyphen=True)] = None,
    /,
    *,
    code: Annotated[str | None, Parameter(name=["-c", "--code"], help="The code.", allow_leading_hyphen=True)] = None,
    language: Annotated[
        str | None,
        Parameter(
            name=["-l", "--language"],
            help="python, js or ts; without it, the ending of the file's name says so, else it is Python.",
        ),
    ] = None,
    input: Annotated[
        str,
        Parameter(
            help="A JSON object whose members become variables of the code; @FILE reads a file, - stdin.",
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
    files: Annotated[
        list[str] | None,
        Parameter(
            name=["--file", "-f"],
            help="PATH or PATH=NAME: a file that the code can open, 16 MB in all; repeatable.",
        ),
    ] = None,
    out: Annotated[Path | None, Parameter(help="A folder in which to save the files that the code left.")] = None,
    here: HereFlag = False,
    label: LabelOption = None,
    output: OutputFlag = None,
    yes: Annotated[bool, Parameter(negative="", help="Approve calls that need approval.")] = False,
    quiet: QuietFlag = False,
    json_: Annotated[
        bool, Parameter(name="--json", negative="", help="Print the whole run as one JSON object.")
    ] = False,
) -> int:
    """Run Python, JavaScript or TypeScript in the sandbox and print what it printed and its value.

    In a project (a folder with `.go-ent`, or below one) the code may call the tools that the project grants.

    The value is that of the last expression, or of a top-level `return`: text as it is, anything else as JSON.
    The exit code is 0 only for a run that completed; each other status has one of its own.

    Code that names `stdin` gets all of stdin as that variable: text, or bytes if it is not UTF-8; at most 16 MB.

    Example: cat access.log | go-ent exec -c 'len(stdin.splitlines())'
    """
    from go_ent.composer.project.files import STATE, find_project
    from go_ent.engine.core.outcomes import EXIT_CODES
    from go_ent.engine.storages import open_storages
    from go_ent.sandbox import Limits, Sandbox

    refuse_both(here=here, label=label)
    source, spoken = _source(file, code), language_of(language, file)
    inputs = read_inputs(input)
    given = read_files(files or ())
    source = _with_stdin(source, inputs, given, taken=file == "-" or input == "-")
    chosen = {"timeout_s": timeout, "cpu_s": cpu, "memory_mb": memory, "fuel": fuel}
    limits = Limits(**{name: value for name, value in chosen.items() if value is not None})
    project = find_project(".")
    recorded = (project / STATE).is_dir()
    kept = open_storages(project) if recorded else None
    image = None
    if spoken == "python":
        image = image_ready(
            project if recorded else Path.cwd(),
            quiet=quiet or json_,
            kinds=("plain",) if fuel is None else ("fuel",),
            images=None if kept is None else kept.images,
        )
    try:
        with ProgressLine("running", quiet=quiet or json_):
            if kept is not None:
                run = asyncio.run(
                    _run_in(
                        project, kept, (source, spoken, inputs, given), limits, grant, yes=yes, quiet=quiet, label=label
                    )
                )
            else:
                run = asyncio.run(_run(Sandbox(limits=limits, workers=1, image=image), source, spoken, inputs, given))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    run.files = {name: data for name, data in run.files.items() if given.get(name) != data}
    print_run(
        run,
        project=project if recorded else None,
        whole=json_,
        file=file,
        form=output,
        source=source,
        saved=out is not None,
    )
    for path in save_files(out, run.files) if out is not None and run.status == "completed" else ():
        say(f"saved: {path}", err=True)
    return EXIT_CODES[run.status]


def language_of(given: str | None, file: str | None) -> Language:
    """The language that was asked for, or that the name of the file says."""
    if given is None:
        return by_suffix(Path(file or "").name) or "python"
    if given.lower() not in SPOKEN:
        raise UsageError(f"-l {given}: there are python, js and ts")
    return SPOKEN[given.lower()]


def _source(file: str | None, code: str | None) -> str | bytes:
    from go_ent.sandbox.host.request import MAX_SOURCE_BYTES

    if file is not None and file != "-" and file.startswith("-"):
        raise UsageError(unknown_option(app, sys.argv[1:]) or f"unknown option: {file}.")
    if (file is None) == (code is None):
        given = "code was given twice" if file is not None else "exec needs code"
        raise UsageError(f"{given}: -c CODE, a FILE, or - for stdin (one of them)")
    if code is not None:
        return code
    if file == "-":
        return read_stdin(MAX_SOURCE_BYTES)
    try:
        with Path(str(file)).open("rb") as opened:
            return opened.read(MAX_SOURCE_BYTES + 1)  # one too many is refused
    except FileNotFoundError:
        raise UsageError(f"there is no file {file}; code itself is given with -c") from None
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None


def _with_stdin(source: str | bytes, inputs: dict[str, Any], files: dict[str, bytes], *, taken: bool) -> str | bytes:
    """Give code that names `stdin` all of it, as a variable; what nobody would read is refused.

    A variable is JSON, which has no bytes: those are a file of that name, read by the code's first line.
    """
    text = source if isinstance(source, str) else source.decode("utf-8", "replace")
    if taken or "stdin" in inputs:
        return source
    if not STDIN.search(text):
        refuse_ignored("name the variable `stdin` in the code")
        return source
    data = read_stdin(MOST_STDIN)
    try:
        inputs["stdin"] = data.decode("utf-8")
    except UnicodeDecodeError:
        if "stdin" in files:
            raise UsageError("--file: the name stdin is taken by what stdin holds") from None
        files["stdin"] = data
        return f"with open('stdin', 'rb') as stdin: stdin = stdin.read()\n{text}"
    return source


async def _run(
    box: Sandbox, source: str | bytes, language: Language, inputs: dict[str, Any], files: dict[str, bytes]
) -> Run:
    """Outside a project: no tools, and nothing on record."""
    with interrupted_by_signals(box):
        try:
            return await box.run(source, inputs, files=files or None, language=language)
        finally:
            box.close()


async def _run_in(
    project: Path,
    kept: Storages,
    what: tuple[str | bytes, Language, dict[str, Any], dict[str, bytes]],
    limits: Limits,
    grant: list[str] | None,
    *,
    yes: bool,
    quiet: bool,
    label: str | None = None,
) -> Run:
    """Code mode: the project's tools, grants and journal. Limits that were given replace the project's.

    *what* is the code, its language, its inputs and its files.
    """
    import base64
    from dataclasses import replace

    from go_ent.composer import Composer
    from go_ent.composer.config import read_config
    from go_ent.engine.cli.commands.recorded import guests_for, say_unmatched
    from go_ent.engine.guest_runs.runs import GuestOrder

    source, language, inputs, files = what
    config = read_config(project)
    chosen = {name: getattr(limits, name) for name in limits.model_fields_set}
    config = replace(config, limits=config.limits.model_copy(update=chosen))
    composer = await asyncio.to_thread(lambda: Composer(project, config=config, workers=1, **kept.for_composer))
    person = Person() if at_terminal() else None
    if person is not None:
        person.wait_for(config.limits)
    approver = approve_all if yes else person.approve if person is not None else None
    async with composer, guests_for(composer, kept) as guests:
        if not quiet:
            await say_unmatched(composer, grant)
        with interrupted_by_signals(composer.box, guests, person):
            try:
                code = source if isinstance(source, str) else source.decode()
                order = GuestOrder(
                    code=code,
                    language=language,
                    inputs=inputs,
                    grants=None if grant is None else tuple(grant),
                    limits=chosen or None,
                    cut=False,
                    files={name: base64.b64encode(data).decode() for name, data in files.items()},
                )
            except ValueError:  # no text, so no code: the sandbox says what is wrong with it
                return await composer.code.execute(source, inputs, language=language, cut=False, files=files)
            return await guests.run(order, approver=approver, label=label)


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
    form: Format | None = None,
    source: str | bytes = "",
    saved: bool = False,
) -> None:
    """A run for people, or *whole* as JSON. *project* is where it is on record; *file* is what its code was read from.

    What a tool has printed goes to stderr: its result stands alone; so it does in a *form* that was asked for. A *bare*
    error has no traceback: the code is ours. *source* is the code, to show where it failed; files that are *saved* need
    not be named.
    """
    recorded = project is not None
    if whole:
        if run.error is not None:
            run.error.hint = run.error.hint_in(in_commands)
        show_json({**run.model_dump(mode="json", exclude={"files"}), "files": files_of(run)})
    else:
        _print_result(run, form, alone=is_tool or form is not None)
        if run.files and form is None:
            show_run_pictures(run, saved=saved)
        if not saved:
            _say_files(run, recorded=recorded)
        _say_pending(run, recorded=recorded)
        _say_error(run, file, "" if bare else source, bare=bare)
    if run.status == "interrupted" and recorded:
        say_interrupted(run.id)
    elif run.status == "interrupted":
        say(
            "interrupted; it was not on record: go-ent init makes this folder a project, where runs can be resumed",
            err=True,
        )
    elif project is not None and not whole and run.status not in ("completed", "paused") and _can_help(run, project):
        say(f"to resume: go-ent resume {short_id(run.id)}", err=True)


def _can_help(run: Run, project: Path) -> bool:
    """Whether a resume could end in another way."""
    from go_ent.engine.storages import open_store

    if run.status == "cpu_limit":  # what it has computed is computed again, within the same limit
        return False
    return open_store(project).load(run.id).resumable


def _print_result(run: Run, form: Format | None, *, alone: bool) -> None:
    """What a run printed, and its value; with the value *alone* on stdout, the rest on stderr."""
    if alone and run.stdout:
        say(run.stdout, err=True, end="" if run.stdout.endswith("\n") else "\n")
    elif run.stdout:
        ended = run.stdout.endswith("\n") or run.result is None
        with aside():
            sys.stdout.write((plain(run.stdout) if tty(sys.stdout) else run.stdout) + ("" if ended else "\n"))
    if run.result is not None:
        show_result(run.result, form)
    with aside():
        sys.stdout.flush()


def files_of(run: Run) -> list[dict[str, Any]]:
    """What files a run left: names, kinds and sizes."""
    return [{"name": one.name, "mime_type": one.mime_type, "bytes": len(one.data)} for one in run.media]


def show_run_pictures(run: Run, *, saved: bool = False) -> None:
    """Show the pictures among a run's files, where somebody looks at a terminal."""
    if is_terminal(sys.stdout):
        from go_ent.engine.cli.pictures.show import show_pictures

        show_pictures(run.media, saved=saved)


def _say_files(run: Run, *, recorded: bool) -> None:
    """Name the files of a run, and how to get them."""
    for one in run.media[:MOST_NAMED]:
        say(f"file {short(one.name)}: {one.mime_type}, {len(one.data):,} bytes", err=True)
    if len(run.files) > MOST_NAMED:
        say(f"and {len(run.files) - MOST_NAMED} more files", err=True)
    if not run.files:
        return
    where = f"kept: go-ent output {short_id(run.id)} --out DIR" if recorded else "not kept: exec --out DIR"
    say(f"{where} saves {'it' if len(run.files) == 1 else 'them'}", err=True)


def _say_pending(run: Run, *, recorded: bool) -> None:
    for pending in run.pending:
        arguments = json.dumps(pending.arguments, default=str, separators=(",", ":"))
        say(f"waits for approval: {pending.tool} with {arguments[:500]}: {pending.reason}", err=True)
    if run.pending and recorded:
        say(f"decide: go-ent approve {short_id(run.id)}, or go-ent reject {short_id(run.id)}", err=True)
        say(f"then resume: go-ent resume {short_id(run.id)} (--yes approves all)", err=True)
    elif run.pending:
        say("nothing goes on by itself: run it again with --yes to approve these calls", err=True)


def _say_error(run: Run, file: str | None, source: str | bytes, *, bare: bool) -> None:
    error = run.error
    if error is None:
        return
    if run.status != "interrupted":
        name = file if file is not None and file != "-" else "code.py"
        traceback = error.traceback if error.line is not None and not bare else None
        if traceback and name != "code.py":
            traceback = re.sub(r'^  File "code\.py"', lambda _: f'  File "{name}"', traceback, flags=re.MULTILINE)
        code = source if isinstance(source, str) else source.decode("utf-8", "replace")
        if not (code and show_marked(error, traceback, code, name)):
            say(traceback or f"{error.kind}: {error.message}", err=True)
        if run.status not in ("error", error.kind):
            line = f", line {error.line}" if error.line is not None and not bare else ""
            say(f"status: {run.status}{line}", err=True)
    if not bare and (hint := error.hint_in(in_commands)):
        say(f"hint: {hint}", err=True)
