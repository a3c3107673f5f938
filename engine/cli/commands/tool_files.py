"""`go-ent tool add`, `export`, `import` and `suggest`: composed tools as files."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import Parameter

from go_ent.composer import Composer, ComposeRefused, Saved
from go_ent.composer.composed.toolfile import MAX_BYTES
from go_ent.composer.project.items import reason
from go_ent.engine.cli import UsageError, app
from go_ent.engine.cli.commands.choosing import Id, meant
from go_ent.engine.cli.commands.recorded import with_composer
from go_ent.engine.cli.commands.tool import JsonFlag
from go_ent.engine.cli.terminal.advice import in_commands
from go_ent.engine.cli.terminal.completion_values import ToolName
from go_ent.engine.cli.terminal.output import say, show, show_json
from go_ent.engine.cli.terminal.usage_errors import unknown_option
from go_ent.engine.core.ids import short_id
from go_ent.engine.executions.past_runs import past_run
from go_ent.engine.storages import open_store
from go_ent.sandbox.worker.languages import SUFFIXES, Language, by_suffix

T = TypeVar("T")


GlobalFlag = Annotated[
    bool, Parameter(name="--global", negative="", help="Use your own store, shared by all projects.")
]


def add_command(
    *files: Annotated[
        str, Parameter(help="A tool's file, - for stdin, or the name of a ready-made tool.", allow_leading_hyphen=True)
    ],
    global_: GlobalFlag = False,
    json_: JsonFlag = False,
) -> int:
    if not files:
        raise UsageError("add needs a tool's file: go-ent tool add FILE")
    for name in files:
        if name.startswith("-") and name != "-":
            raise UsageError(unknown_option(app, sys.argv[1:]) or f"unknown option: {name}.")
    sources = [_tool_source(name) for name in files]

    async def work(composer: Composer) -> int:
        scope: Literal["project", "global"] = "global" if global_ else "project"

        async def save(item: tuple[str, bytes, Language | None]) -> None:
            saved = await composer.compose(item[1], scope=scope, language=item[2])
            what = f"version {saved.version}" if saved.created else f"unchanged, version {saved.version}"
            examples = (
                f"{saved.examples} example{'' if saved.examples == 1 else 's'} passed"
                if saved.examples
                else "no examples"
            )
            rows.append(_saved(item[0], saved))
            if not json_:
                say(f"{saved.name}: {what}, {examples} ({saved.scope})")

        rows: list[dict[str, Any]] = []
        refused = await save_all(sources, save)
        for (name, *_), error in refused:
            rows.append({"file": name, "name": error.name, "saved": False, "problems": list(error.problems)})
            _refused(name, error)
        if json_:
            show_json(rows)
        return 1 if refused else 0

    return with_composer(work, progress="checking, and running examples", quiet=json_)


def _saved(file: str, saved: Saved) -> dict[str, Any]:
    row = {
        "name": saved.name,
        "version": saved.version,
        "created": saved.created,
        "language": saved.language,
        "examples": saved.examples,
        "scope": saved.scope,
    }
    return {"file": file, **row, "saved": True}


async def save_all(items: list[T], save: Callable[[T], Awaitable[None]]) -> list[tuple[T, ComposeRefused]]:
    """Save tools in whatever order works: one may require another of them. What can't be saved, and why."""
    alone = len(items) == 1
    while True:
        refused: list[tuple[T, ComposeRefused]] = []
        for item in items:
            try:
                await save(item)
            except ComposeRefused as error:
                refused.append((item, error))
            except Exception as error:
                if alone:
                    raise
                refused.append(
                    (
                        item,
                        ComposeRefused(
                            str(getattr(item, "name", "the tool"))[:80], [reason(error, "a tool to be saved")]
                        ),
                    )
                )
        if not refused or len(refused) == len(items):
            return refused
        items = [item for item, _ in refused]


def _refused(name: str, error: ComposeRefused) -> None:
    say(f"{name}: {error.name} was not saved", err=True)
    for problem in error.problems:
        say(f"  - {problem}", err=True)


def _bounded(name: str, most: int) -> bytes:
    """What a file, or stdin, holds; one byte more than *most*, if it is more."""
    if name == "-":
        return sys.stdin.buffer.read(most + 1)
    with open(name, "rb") as file:
        return file.read(most + 1)


def _tool_source(name: str) -> tuple[str, bytes, Language | None]:
    """A file's name, what it holds, and the language that its name says."""
    path = Path(name)
    if name != "-" and not path.exists() and path.suffix == "" and "/" not in name:
        from go_ent.composer.composed.shipped import shipped_tools

        shipped = shipped_tools()
        if name in shipped:
            return name, shipped[name].read_bytes(), by_suffix(shipped[name].name)
        raise UsageError(
            f"{name}: there is no such file, and no ready-made tool of that name; there are "
            f"{', '.join(sorted(shipped))}"
        )
    try:
        return name, _bounded(name, MAX_BYTES), by_suffix(path.name)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from None


def export_command(*names: ToolName, json_: JsonFlag = False) -> int:
    """Tools as one JSON document: those named, or all of the project's."""

    async def work(composer: Composer) -> int:
        await composer.composed.load()
        chosen = list(names) or sorted(
            name for name, tool in composer.composed.found.items() if tool.scope == "project"
        )
        tools = []
        for name in chosen:  # and what they require, which is added at the end
            tool = await composer.composed.get(name)
            chosen += [
                needed
                for needed in tool.interface.requires
                if needed in composer.composed.found and needed not in chosen
            ]
            about = {"name": tool.name, "version": tool.version, "scope": tool.scope, "language": tool.language}
            tools.append({**about, "source": tool.file.source})
        show_json({"format": "go-ent-tools/1", "tools": tools}, indent=None if json_ else 1)
        return 0

    return with_composer(work, quiet=json_)


def import_command(
    *files: Annotated[
        str, Parameter(help="An export, a tool's file, or a JSON file of the older form.", allow_leading_hyphen=True)
    ],
    global_: GlobalFlag = False,
    replace: Annotated[
        bool, Parameter(negative="", help="Replace tools of the same name; old versions stay in the history.")
    ] = False,
    json_: JsonFlag = False,
) -> int:
    """Import tools: documents that `export` wrote, tool files, and JSON files of the older form.

    They are saved in the project, or with --global in the user's own store, whatever a file says of itself.
    """
    if not files:
        raise UsageError("import needs files")

    async def work(composer: Composer) -> int:
        from go_ent.composer.composed.importing import MAX_IMPORT, Imported, read_import

        async def save(item: Imported) -> None:
            scope: Literal["project", "global"] = "global" if global_ else "project"
            saved = await composer.compose(item.source, scope=scope, replace=replace, language=item.language)
            if saved.created and item.calls:
                composer.usage[scope].set(saved.name, item.calls, item.last_used)
            note = f" ({item.note})" if item.note else ""
            rows.append({**_saved(item.name, saved), "note": item.note or None})
            if not json_:
                say(
                    f"{saved.name}: {'version' if saved.created else 'unchanged, version'} {saved.version} "
                    f"({scope}){note}"
                )

        rows: list[dict[str, Any]] = []
        code = 0
        for file in files:
            try:
                data = await asyncio.to_thread(_bounded, file, MAX_IMPORT)
            except OSError as error:
                if len(files) == 1:
                    raise UsageError(f"{file}: {error.strerror}") from None
                say(f"{file}: {error.strerror}", err=True)
                rows.append({"file": file, "name": None, "saved": False, "problems": [error.strerror]})
                code = 1
                continue
            found = await read_import(data, file, composer.box)
            for item in found:
                if item.problem is not None:
                    say(
                        f"{file}: {item.problem}" if item.name == file else f"{file}: {item.name}: {item.problem}",
                        err=True,
                    )
                    rows.append({"file": file, "name": item.name, "saved": False, "problems": [item.problem]})
                    code = 1
            for _, refusal in await save_all([item for item in found if item.problem is None], save):
                say(f"{file}: {refusal.told(in_commands)}", err=True)
                rows.append({"file": file, "name": refusal.name, "saved": False, "problems": list(refusal.problems)})
                code = 1
        if json_:
            show_json(rows)
        return code

    return with_composer(work, progress="importing", quiet=json_)


def save_command(
    execution: Id,
    /,
    *,
    name: Annotated[str, Parameter(help="What the tool is to be called.")],
    about: Annotated[str, Parameter(help="What it is for, in a sentence.")] = "",
    param: Annotated[
        list[str] | None,
        Parameter(
            help="A constant of the code that becomes a parameter: limit=10, limit:LINE=10 or limit; repeatable."
        ),
    ] = None,
    global_: GlobalFlag = False,
    json_: JsonFlag = False,
) -> int:
    """Make the code of an execution a composed tool: its inputs become parameters, its calls and its result an example.

    Constants of the code that you name become parameters too: `--param limit=10` takes the one literal 10, `--param
    limit` the literal that the code calls so itself (`limit = 10`, or `f(limit=10)`). The value that was there is the
    parameter's default.

    Example: go-ent tool save last --name newest_orders --param limit=10 --about "The newest orders of a customer."
    """

    execution_id = meant(execution)

    async def work(composer: Composer) -> int:
        run = await asyncio.to_thread(past_run, open_store(composer.project), execution_id)
        await composer.catalogue.load()
        source = await composer.tool_of(
            run, name, about or f"Made from execution {short_id(execution_id)}.", constants=constants_of(param or [])
        )
        saved = await composer.compose(source, scope="global" if global_ else "project")
        if json_:
            show_json(_saved("", saved) | {"source": source})
        else:
            say(f"{saved.name}: version {saved.version}, {saved.examples} example passed ({saved.scope})")
        return 0

    return with_composer(work, progress="checking, and running its example", quiet=json_)


def constants_of(params: list[str]) -> dict[str, Any]:
    """Constants by their names; a value is JSON, or else text."""
    constants: dict[str, Any] = {}
    for param in params:
        name, given, text = param.partition("=")
        try:
            value = json.loads(text) if given else ...
        except (ValueError, RecursionError):
            value = text
        if name in constants:
            raise UsageError(f"--param {name} was given twice")
        constants[name] = value
    return constants


def suggest_command(
    *,
    least: Annotated[int, Parameter(help="How many similar runs make a suggestion.")] = 2,
    write: Annotated[Path | None, Parameter(help="Write each suggestion to a file in this folder.")] = None,
    json_: JsonFlag = False,
) -> int:
    """Find code that was run again and again, up to literals and names, and propose composed tools for it."""

    async def work(composer: Composer) -> int:
        suggestions = await composer.suggest(least=least)
        if json_:
            show_json([{"name": s.name, "runs": s.runs, "source": s.source} for s in suggestions])
            return 0
        if not suggestions:
            say("nothing to suggest yet: no code was run at least twice in the same shape", err=True)
        for suggestion in suggestions:
            runs = f"{suggestion.runs} run{'' if suggestion.runs == 1 else 's'}"
            if write is not None:
                write.mkdir(parents=True, exist_ok=True)
                path = write / f"{suggestion.name}{SUFFIXES[suggestion.language]}"
                path.write_text(suggestion.source, encoding="utf-8")
                say(f"{path}: from {runs}")
            else:
                mark = "#" if suggestion.language == "python" else "//"
                show(f"{mark} from {runs}; save it with: go-ent tool add FILE\n{suggestion.source}")
        return 0

    return with_composer(work, quiet=json_)
