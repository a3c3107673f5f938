"""`go-ent tool`: composed tools at the command line."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import Parameter
from pydantic_core import to_json

from composer import Composer, ComposeRefused, ComposerError
from composer.catalogue import Detail, show
from composer.composed import Broken, Composed
from composer.toolfile import MAX_BYTES
from composer.usage import Used
from engine.cli import UsageError
from engine.cli.exec import approve_all, print_run, read_inputs
from engine.cli.signals import interrupted_by_signals
from engine.guests import GuestOrder, Guests
from engine.outcomes import EXIT_CODES
from engine.source import guests_for
from sandbox import Limits

T = TypeVar("T")
JsonFlag = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")]
GlobalFlag = Annotated[bool, Parameter(name="--global", negative="", help="In the user's own store, for all projects.")]


def with_composer(work: Callable[[Composer], Awaitable[int]]) -> int:
    """Do something with the composer of the project that this folder is in."""
    return with_guests(lambda composer, guests: work(composer))


def with_guests(work: Callable[[Composer, Guests], Awaitable[int]]) -> int:
    """Do something with the composer of the project that this folder is in, and what it runs on record."""

    async def main() -> int:
        composer = await asyncio.to_thread(Composer.open, ".")
        async with composer, guests_for(composer) as guests:
            with interrupted_by_signals(composer.box):
                return await work(composer, guests)

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def list_command(*, json_: JsonFlag = False) -> int:
    async def work(composer: Composer) -> int:
        found = await composer.tools()
        rows = [_row(tool, used, shadows=any(other.name == tool.name for other in composer.composed.shadowed)) for tool, used in found]
        if json_:
            print(to_json(rows).decode())
            return 0
        if not rows:
            print("no composed tools yet: go-ent tool add FILE", file=sys.stderr)
        width = max((len(row["name"]) for row in rows), default=0)
        for row in rows:
            shadow = ", shadows a global one" if row["shadows"] else ""
            state = f"BROKEN: {row['broken']}" if row["broken"] else row["description"]
            use = f"{row['calls']} call{'' if row['calls'] == 1 else 's'}" if row["calls"] else "unused"
            version = f"v{row['version']}" if row["version"] else "-"
            print(f"{row['name']:<{width}}  {version:<4} {row['scope']}{shadow}  {use:<10}  {state.splitlines()[0] if state else ''}")
        for store in composer.stores:
            for name in store.strangers():
                print(f"{store.scope}: {name} is not a tool: its name can't be one", file=sys.stderr)
        return 0

    return with_composer(work)


def _row(tool: Composed | Broken, used: Used, *, shadows: bool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "version": tool.version if isinstance(tool, Composed) else tool.last_version,
        "scope": tool.scope,
        "shadows": shadows,
        "description": tool.interface.description if isinstance(tool, Composed) else "",
        "requires": list(tool.interface.requires) if isinstance(tool, Composed) else [],
        "broken": tool.reason if isinstance(tool, Broken) else None,
        "calls": used.calls,
        "failures": used.failures,
        "last_used": used.last_used,
        "p50_ms": None if used.p50_ms is None else round(used.p50_ms, 3),
    }


def show_command(
    name: str, /, *, source: Annotated[bool, Parameter(negative="", help="The source alone.")] = False, json_: JsonFlag = False
) -> int:
    async def work(composer: Composer) -> int:
        tool = await composer.composed.get(name)
        if source:
            sys.stdout.write(tool.file.source)
        elif json_:
            interface = tool.interface.model_dump()
            print(
                to_json({"name": tool.name, "version": tool.version, "scope": tool.scope, **interface, "source": tool.file.source}).decode()
            )
        else:
            examples = len(tool.file.metadata.examples)
            print(f"{tool.name} version {tool.version} ({tool.scope}), {examples} example{'' if examples == 1 else 's'}")
            print(f"requires: {', '.join(tool.interface.requires) or 'nothing'}\n")
            print(show([tool.spec], "stubs"))
        return 0

    return with_composer(work)


def add_command(
    *files: Annotated[str, Parameter(help="A tool's file, - for stdin, or the name of a ready-made tool.", allow_leading_hyphen=True)],
    global_: GlobalFlag = False,
) -> int:
    if not files:
        raise UsageError("add needs a tool's file: go-ent tool add FILE")
    for name in files:
        if name.startswith("-") and name != "-":
            raise UsageError(f"unknown option {name}")
    sources = [(name, _tool_source(name)) for name in files]

    async def work(composer: Composer) -> int:
        scope: Literal["project", "global"] = "global" if global_ else "project"

        async def save(item: tuple[str, bytes]) -> None:
            saved = await composer.compose(item[1], scope=scope)
            what = f"version {saved.version}" if saved.created else f"unchanged, version {saved.version}"
            examples = f"{saved.examples} example{'' if saved.examples == 1 else 's'} passed" if saved.examples else "no examples"
            print(f"{saved.name}: {what}, {examples} ({saved.scope})")

        refused = await save_all(sources, save)
        for (name, _), error in refused:
            _refused(name, error)
        return 1 if refused else 0

    return with_composer(work)


async def save_all(items: list[T], save: Callable[[T], Awaitable[None]]) -> list[tuple[T, ComposeRefused]]:
    """Save tools in whatever order works: one may require another of them. What can't be saved, and why."""
    while True:
        refused: list[tuple[T, ComposeRefused]] = []
        for item in items:
            try:
                await save(item)
            except ComposeRefused as error:
                refused.append((item, error))
        if not refused or len(refused) == len(items):
            return refused
        items = [item for item, _ in refused]


def _refused(name: str, error: ComposeRefused) -> None:
    print(f"{name}: {error.name} was not saved", file=sys.stderr)
    for problem in error.problems:
        print(f"  - {problem}", file=sys.stderr)


def _tool_source(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    path = Path(name)
    if not path.exists() and path.suffix == "" and "/" not in name:
        from composer.shipped import shipped_tools

        shipped = shipped_tools()
        if name in shipped:
            return shipped[name].read_bytes()
        raise UsageError(f"{name}: there is no such file, and no ready-made tool of that name; there are {', '.join(sorted(shipped))}")
    try:
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from None


def run_command(
    name: str,
    /,
    *,
    input: Annotated[str, Parameter(help="The inputs as a JSON object. @FILE reads a file.", allow_leading_hyphen=True)] = "{}",
    each: Annotated[
        bool, Parameter(negative="", help="Once for each JSON line of stdin, concurrently; results in the same order.")
    ] = False,
    slurp: Annotated[bool, Parameter(negative="", help="Once, over the list of all JSON lines of stdin.")] = False,
    fail_fast: Annotated[bool, Parameter(negative="", help="With --each: stop at the first line that fails.")] = False,
    jobs: Annotated[int | None, Parameter(help="With --each: how many at a time.")] = None,
    grant: Annotated[list[str] | None, Parameter(help="Narrow what the run may call; may be given more than once.")] = None,
    timeout: Annotated[float | None, Parameter(help="Wall time in seconds.")] = None,
    cpu: Annotated[float | None, Parameter(help="CPU time in seconds.")] = None,
    memory: Annotated[int | None, Parameter(help="Memory in MB.")] = None,
    yes: Annotated[bool, Parameter(negative="", help="Approve the calls that need approval.")] = False,
    json_: Annotated[bool, Parameter(name="--json", negative="", help="Print whole runs as JSON objects.")] = False,
) -> int:
    """Run a composed tool and print its result: text as it is, anything else as JSON.

    With --each or --slurp, stdin holds one JSON value a line. A line that is an object of the tool's own parameters
    gives the inputs; any other value is that of its first parameter. --input gives the rest.
    """
    if each and slurp:
        raise UsageError("--each runs once for each line, --slurp once over all: choose one")
    inputs = read_inputs(input)
    chosen = {"timeout_s": timeout, "cpu_s": cpu, "memory_mb": memory}
    limits = Limits(**{key: value for key, value in chosen.items() if value is not None})
    narrower = {key: getattr(limits, key) for key in limits.model_fields_set}

    async def work(composer: Composer, guests: Guests) -> int:
        from engine.batches import Batch
        from engine.cli.pipeline import feed, in_background, run_batch, slurped

        tool = await composer.composed.get(name)
        composer.box.limits.narrowed(narrower)  # a wider limit is refused before anything runs
        order = GuestOrder(tool=name, inputs=inputs, grants=None if grant is None else tuple(grant), limits=narrower, cut=False)
        approver = approve_all if yes else None
        if each:
            lines = order.model_copy(update={"each": True, "jobs": jobs, "fail_fast": fail_fast})
            return await run_batch(await Batch.begin(guests, lines, composer), approver, whole=json_)
        given = feed(tool, inputs, await in_background(slurped), as_list=True) if slurp else inputs
        run = await guests.run(order.model_copy(update={"inputs": given}), approver=approver)
        print_run(run, whole=json_, recorded=True)
        return EXIT_CODES[run.status]

    return with_guests(work)


def examples_command(*names: str, json_: JsonFlag = False) -> int:
    """Run the examples of the tools named, or of all. Exit code 1 if one does not come true."""

    async def work(composer: Composer) -> int:
        await composer.composed.load()
        chosen = names or tuple(sorted((*composer.composed.found, *composer.composed.broken)))
        failed = 0
        rows = []
        for name in chosen:
            try:
                outcomes = await composer.test(name)
            except ComposerError as error:
                failed += 1
                rows.append({"name": name, "example": None, "ok": False, "problem": str(error), "ms": 0.0})
                continue
            if not outcomes:
                rows.append({"name": name, "example": None, "ok": True, "problem": "it has no examples", "ms": 0.0})
            for outcome in outcomes:
                failed += outcome.problem is not None
                ok = outcome.problem is None
                rows.append({"name": name, "example": outcome.number, "ok": ok, "problem": outcome.problem, "ms": round(outcome.ms, 3)})
        if json_:
            print(to_json(rows).decode())
        else:
            for row in rows:
                which = "" if row["example"] is None else f" example {row['example']}"
                print(f"{'ok    ' if row['ok'] else 'FAILED'} {row['name']}{which}" + (f": {row['problem']}" if row["problem"] else ""))
        return 1 if failed else 0

    return with_composer(work)


def history_command(name: str, /, *, json_: JsonFlag = False) -> int:
    async def work(composer: Composer) -> int:
        versions = await composer.history(name)
        current = composer.composed.found.get(name)
        now = current.version if current is not None else None
        if json_:
            rows = [{"version": v.number, "digest": v.digest, "saved": v.saved, "current": v.number == now} for v in versions]
            print(to_json(rows).decode())
        else:
            for version in versions:
                when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(version.saved))
                print(f"v{version.number}  {version.digest}  {when}{'  current' if version.number == now else ''}")
        return 0

    return with_composer(work)


def rollback_command(name: str, version: int, /) -> int:
    async def work(composer: Composer) -> int:
        made = await composer.rollback(name, version)
        print(f"{name}: version {made.number} is version {version} again")
        return 0

    return with_composer(work)


def rm_command(*names: str) -> int:
    if not names:
        raise UsageError("rm needs the name of a tool")

    async def work(composer: Composer) -> int:
        for name in names:
            scope = await composer.remove(name)
            print(f"{name}: removed from the {scope} store; `go-ent tool rollback {name} VERSION` brings it back")
        return 0

    return with_composer(work)


def search_command(
    *words: str,
    detail: Annotated[Detail, Parameter(help="A line each, typed stubs, or the schemas too.")] = "brief",
    namespace: Annotated[str | None, Parameter(help="Only tools of this namespace.")] = None,
    limit: Annotated[int, Parameter(help="How many at the most.")] = 10,
) -> int:
    """Search the tools that this project grants, whatever they come from. Without words: list them."""

    async def work(composer: Composer) -> int:
        if words:
            found = await composer.catalogue.search(" ".join(words), composer.grants, namespace=namespace, limit=limit)
        else:
            found = await composer.catalogue.tools(composer.grants, namespace)
        print(show(found, detail) if found else "no tool that is granted here fits", file=sys.stdout if found else sys.stderr)
        for origin, problem in composer.catalogue.problems.items():
            print(f"{origin}: {problem}", file=sys.stderr)
        return 0 if found else 1

    return with_composer(work)


def export_command(*names: str) -> int:
    """Tools as one JSON document: those named, or all of the project's."""

    async def work(composer: Composer) -> int:
        await composer.composed.load()
        chosen = list(names) or sorted(name for name, tool in composer.composed.found.items() if tool.scope == "project")
        tools = []
        for name in chosen:  # and what they require, which is added at the end
            tool = await composer.composed.get(name)
            chosen += [needed for needed in tool.interface.requires if needed in composer.composed.found and needed not in chosen]
            tools.append({"name": tool.name, "version": tool.version, "scope": tool.scope, "source": tool.file.source})
        print(to_json({"format": "go-ent-tools/1", "tools": tools}, indent=1).decode())
        return 0

    return with_composer(work)


def import_command(*files: Annotated[str, Parameter(allow_leading_hyphen=True)], global_: GlobalFlag = False) -> int:
    """Import tools: documents that `export` wrote, tool files, and JSON files of the older form."""
    if not files:
        raise UsageError("import needs files")

    async def work(composer: Composer) -> int:
        from composer.importing import Imported, read_import

        async def save(item: Imported) -> None:
            scope: Literal["project", "global"] = "global" if global_ else item.scope
            saved = await composer.compose(item.source, scope=scope)
            if saved.created and item.calls:
                composer.usage[scope].set(saved.name, item.calls, item.last_used)
            note = f" ({item.note})" if item.note else ""
            print(f"{saved.name}: {'version' if saved.created else 'unchanged, version'} {saved.version} ({scope}){note}")

        code = 0
        for file in files:
            try:
                data = await asyncio.to_thread(sys.stdin.buffer.read if file == "-" else Path(file).read_bytes)
            except OSError as error:
                raise UsageError(f"{file}: {error.strerror}") from None
            found = await read_import(data, file, composer.box)
            for item in found:
                if item.problem is not None:
                    print(f"{file}: {item.problem}" if item.name == file else f"{file}: {item.name}: {item.problem}", file=sys.stderr)
                    code = 1
            for _, refusal in await save_all([item for item in found if item.problem is None], save):
                print(f"{file}: {refusal}", file=sys.stderr)
                code = 1
        return code

    return with_composer(work)


def learn_command(name: str, /, *, json_: JsonFlag = False) -> int:
    """Learn the output schema of a tool that has none from the results in the journal. Shown in stubs, marked as learned."""

    async def work(composer: Composer) -> int:
        schema, seen = await composer.learn(name)
        if json_:
            print(json.dumps(schema))
        else:
            print(f"learned from {seen} result{'' if seen == 1 else 's'} of {name}:\n")
            print(show([await composer.catalogue.find(name)], "stubs"))
        return 0

    return with_composer(work)


def suggest_command(
    *,
    least: Annotated[int, Parameter(help="How many runs of the same shape make a suggestion.")] = 2,
    write: Annotated[Path | None, Parameter(help="Write each suggestion to a file in this folder.")] = None,
    json_: JsonFlag = False,
) -> int:
    """Find code that was run again and again, up to literals and names, and propose composed tools for it."""

    async def work(composer: Composer) -> int:
        suggestions = await composer.suggest(least=least)
        if json_:
            print(to_json([{"name": s.name, "runs": s.runs, "source": s.source} for s in suggestions]).decode())
            return 0
        if not suggestions:
            print("nothing to suggest yet: no code was run at least twice in the same shape", file=sys.stderr)
        for suggestion in suggestions:
            if write is not None:
                write.mkdir(parents=True, exist_ok=True)
                path = write / f"{suggestion.name}.py"
                path.write_text(suggestion.source, encoding="utf-8")
                print(f"{path}: from {suggestion.runs} runs")
            else:
                print(f"# from {suggestion.runs} runs; save it with: go-ent tool add FILE\n{suggestion.source}")
        return 0

    return with_composer(work)
