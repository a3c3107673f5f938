"""`go-ent tool`: composed tools at the command line."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from cyclopts import Parameter

from go_ent.composer import Approver, Composer, ComposerError, ToolSpec
from go_ent.composer.catalogue.catalogue import Detail, show_found
from go_ent.composer.catalogue.catalogue import show as stubs
from go_ent.composer.composed.source import Broken, Composed
from go_ent.composer.composed.usage import Used
from go_ent.composer.errors import NotGranted
from go_ent.composer.project.items import reason
from go_ent.engine.cli import SETUP_ERROR, UsageError
from go_ent.engine.cli.commands.exec import print_run, read_inputs
from go_ent.engine.cli.commands.recorded import say_unmatched, with_composer, with_guests
from go_ent.engine.cli.terminal.completion_values import AnyToolName, ToolName
from go_ent.engine.cli.terminal.output import STYLES, is_rich, plain, say, show_json, tty
from go_ent.engine.cli.terminal.progress import QuietFlag, tell
from go_ent.engine.cli.terminal.tables import table
from go_ent.engine.core.outcomes import EXIT_CODES
from go_ent.engine.guest_runs.runs import GuestOrder, Guests
from go_ent.sandbox import Limits

JsonFlag = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")]


def list_command(*, json_: JsonFlag = False) -> int:
    async def work(composer: Composer) -> int:
        found = await composer.tools()
        _say_ignored(composer)
        late = await composer.outdated()
        rows = [
            _row(tool, used, shadows=any(other.name == tool.name for other in composer.composed.shadowed))
            | {"changed": late.get(tool.name, [])}
            for tool, used in found
        ]
        code = SETUP_ERROR if composer.composed.problems else 0
        if json_:
            show_json(rows)
            return code
        if not rows and not code:
            say("no composed tools yet: go-ent tool add FILE", err=True)
        elif is_rich(sys.stdout):
            table(
                [_cells(row) for row in rows],
                ["name", "version", "scope", "use", "description"],
                spare=("use", "scope"),
            )
        width = max((len(row["name"]) for row in rows), default=0)
        for row in rows if not is_rich(sys.stdout) else ():
            name, version, scope, use, state = _cells(row)
            say(f"{name:<{width}}  {version:<4} {scope}  {use:<10}  {state}")
        for name, changed in late.items():
            say(f"{name} requires {', '.join(changed)}, which changed since: go-ent tool test {name}", err=True)
        return code

    return with_composer(work, quiet=json_)


def _say_ignored(composer: Composer) -> None:
    """Where a person looks for their tools: what else is in the stores, and what of them can't be looked at."""
    for folder, why in composer.composed.problems.items():
        say(f"{folder}: {why}", err=True)
    for store in composer.stores:
        if store.where in composer.composed.problems:
            continue
        for name in store.strangers():
            say(f"{store.scope}: {name} is not a tool: its name can't be one", err=True)
        for told in store.ignored():
            say(told, err=True)


def _cells(row: dict[str, Any]) -> list[str]:
    state = f"BROKEN: {row['broken']}" if row["broken"] else row["description"]
    use = f"{row['calls']} call{'' if row['calls'] == 1 else 's'}" if row["calls"] else "unused"
    scope = row["scope"] + (", shadows a global one" if row["shadows"] else "")
    return [
        row["name"],
        f"v{row['version']}" if row["version"] else "-",
        scope,
        use,
        state.splitlines()[0] if state else "",
    ]


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
    name: AnyToolName,
    /,
    *,
    source: Annotated[bool, Parameter(negative="", help="Print only the source.")] = False,
    json_: JsonFlag = False,
) -> int:
    async def work(composer: Composer) -> int:
        if await composer.is_elsewhere(name):
            if source:
                raise UsageError(f"{name} is not a composed tool: its source is not here")
            return await show_any(composer, name, json_=json_)
        tool = await composer.composed.get(name)
        if json_:
            interface = tool.interface.model_dump()
            show_json(
                {
                    "name": tool.name,
                    "version": tool.version,
                    "scope": tool.scope,
                    **interface,
                    "source": tool.file.source,
                }
            )
        elif source:
            sys.stdout.write(plain(tool.file.source) if tty(sys.stdout) else tool.file.source)
        else:
            examples = len(tool.file.metadata.examples)
            say(f"{tool.name} version {tool.version} ({tool.scope}), {examples} example{'' if examples == 1 else 's'}")
            say(f"requires: {', '.join(tool.interface.requires) or 'nothing'}\n")
            for changed in (await composer.outdated()).get(name, []):
                say(f"{changed} has changed since: go-ent tool test {name}", err=True)
            say(stubs([tool.spec], "stubs"))
        return 0

    return with_composer(work, quiet=json_)


def run_command(
    name: AnyToolName,
    /,
    *,
    input: Annotated[
        str, Parameter(help="The inputs as a JSON object; @FILE reads a file.", allow_leading_hyphen=True)
    ] = "{}",
    each: Annotated[
        bool, Parameter(negative="", help="Run once per JSON line of stdin, concurrently; results keep the order.")
    ] = False,
    slurp: Annotated[bool, Parameter(negative="", help="Run once over the list of all JSON lines of stdin.")] = False,
    fail_fast: Annotated[bool, Parameter(negative="", help="With --each: stop at the first line that fails.")] = False,
    jobs: Annotated[int | None, Parameter(help="With --each: how many lines to run at once.")] = None,
    grant: Annotated[
        list[str] | None, Parameter(help="Let the tool call only these tools, of those granted; repeatable.")
    ] = None,
    timeout: Annotated[float | None, Parameter(help="Wall time in seconds.")] = None,
    cpu: Annotated[float | None, Parameter(help="CPU time in seconds.")] = None,
    memory: Annotated[int | None, Parameter(help="Memory in MB.")] = None,
    yes: Annotated[bool, Parameter(negative="", help="Approve calls that need approval.")] = False,
    quiet: QuietFlag = False,
    json_: Annotated[
        bool, Parameter(name="--json", negative="", help="Print each whole run as a JSON object.")
    ] = False,
) -> int:
    """Run a composed tool, or call any other, and print the result: text as it is, anything else as JSON.

    With --each or --slurp, stdin holds one JSON value a line. A line that is an object of the tool's own parameters
    gives the inputs; any other value is that of its first parameter. --input gives the rest.
    """
    if each and slurp:
        raise UsageError("--each runs once for each line, --slurp once over all: choose one")
    if not each and (fail_fast or jobs is not None):
        raise UsageError("--jobs and --fail-fast are about the lines of stdin: they go with --each")
    inputs = read_inputs(input)
    chosen = {"timeout_s": timeout, "cpu_s": cpu, "memory_mb": memory}
    limits = Limits(**{key: value for key, value in chosen.items() if value is not None})
    narrower = {key: getattr(limits, key) for key in limits.model_fields_set}

    async def work(composer: Composer, guests: Guests, approver: Approver | None) -> int:
        from go_ent.engine.cli.commands.pipeline import feed, run_batch, slurped
        from go_ent.engine.cli.terminal.background import in_background
        from go_ent.engine.guest_runs.batch import Batch

        if not quiet:
            await say_unmatched(composer, grant)
        composer.box.limits.narrowed(narrower)  # a wider limit is refused before anything runs
        if not (each or slurp) and await composer.is_elsewhere(name):
            spec = await _granted(composer, name)
            whole = order_for(spec, inputs, grants=None if grant is None else tuple(grant), limits=narrower)
            run = await guests.run(whole, approver=approver)
            print_run(run, project=composer.project, whole=json_, is_tool=True, bare=True)
            return EXIT_CODES[run.status]
        tool = await composer.composed.get(name)
        order = GuestOrder(
            tool=name, inputs=inputs, grants=None if grant is None else tuple(grant), limits=narrower, cut=False
        )
        if each:
            lines = order.model_copy(update={"each": True, "jobs": jobs, "fail_fast": fail_fast})
            return await run_batch(await Batch.begin(guests, lines, composer), approver, whole=json_, quiet=quiet)
        given = feed(tool, inputs, await in_background(slurped), as_list=True) if slurp else inputs
        run = await guests.run(order.model_copy(update={"inputs": given}), approver=approver)
        print_run(run, project=composer.project, whole=json_, is_tool=True)
        return EXIT_CODES[run.status]

    return with_guests(work, yes=yes, progress="running", quiet=quiet or json_)


def call_command(
    name: AnyToolName,
    /,
    *values: Annotated[
        str,
        Parameter(
            help="Arguments as KEY=VALUE: a text where the tool takes one, else JSON where it is some.",
            allow_leading_hyphen=True,
        ),
    ],
    input: Annotated[
        str, Parameter(help="Arguments as a JSON object; @FILE reads a file.", allow_leading_hyphen=True)
    ] = "{}",
    yes: Annotated[bool, Parameter(negative="", help="Approve calls that need approval.")] = False,
    quiet: QuietFlag = False,
    json_: Annotated[bool, Parameter(name="--json", negative="", help="Print the whole run as a JSON object.")] = False,
) -> int:
    """Call any granted tool once and print its result: one of a server or an API, or a composed tool. The call is on
    record, like a run of code.
    """
    given = read_inputs(input)

    async def work(composer: Composer, guests: Guests, approver: Approver | None) -> int:
        if not quiet:
            await say_unmatched(composer)
        if not await composer.is_elsewhere(name):
            await composer.composed.get(name)  # of one that is not there, or broken, it says more
        spec = await _granted(composer, name)
        order = order_for(spec, {**given, **read_values(values, spec)})
        run = await guests.run(order, approver=approver)
        print_run(run, project=composer.project, whole=json_, is_tool=True, bare=order.tool is None)
        return EXIT_CODES[run.status]

    return with_guests(work, yes=yes, progress=f"calling {name}", quiet=quiet or json_)


async def _granted(composer: Composer, name: str) -> ToolSpec:
    try:
        return await composer.catalogue.get(name, composer.grants)
    except NotGranted:
        raise NotGranted(name, f"go-ent grant {name} lets code call it") from None


def order_for(spec: ToolSpec, arguments: dict[str, Any], **options: Any) -> GuestOrder:
    """One call of a tool, as an execution: of a composed tool a run of it, of any other a line of code."""
    if spec.digest:
        return GuestOrder(tool=spec.name, inputs=arguments, cut=False, **options)
    return GuestOrder(
        code=f"await tools.{spec.name}(**arguments)", inputs={"arguments": arguments}, cut=False, **options
    )


def read_values(values: Iterable[str], spec: ToolSpec) -> dict[str, Any]:
    """Arguments as a person types them, by what the tool takes."""
    properties = spec.input_schema.get("properties")
    schemas: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
    found: dict[str, Any] = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{text[:80]!r}: arguments are written as KEY=VALUE, or as one JSON object after --input")
        if key in found:
            raise UsageError(f"{key} was given twice")
        found[key] = value if _is_text(schemas.get(key)) else _json_or_text(value)
    return found


def _is_text(schema: Any) -> bool:
    """Whether nothing but a text fits, or nothing at all."""
    if not isinstance(schema, Mapping):
        return False
    kinds = schema.get("type", [])
    if branches := schema.get("anyOf") or schema.get("oneOf"):
        return all(_is_text(one) or (isinstance(one, Mapping) and one.get("type") == "null") for one in branches)
    return "string" in kinds and set([kinds] if isinstance(kinds, str) else kinds) <= {"string", "null"}


def _json_or_text(text: str) -> Any:
    def no_constant(name: str) -> None:
        raise ValueError(name)

    try:
        return json.loads(text, parse_constant=no_constant)
    except (ValueError, RecursionError):
        return text


async def show_any(composer: Composer, name: str, *, json_: bool) -> int:
    """Show a tool that is not a composed one, granted or not."""
    await composer.catalogue.load_known()
    spec = composer.catalogue.known(name) or await composer.catalogue.find(name)
    granted = composer.grants.allows(name)
    if json_:
        show_json(
            {
                "name": spec.name,
                "origin": spec.origin,
                "granted": granted,
                "read_only": spec.hints.read_only,
                "destructive": spec.hints.destructive,
                "description": spec.description,
                "input_schema": spec.input_schema,
                "output_schema": spec.output_schema,
            }
        )
        return 0
    say(f"{spec.name} ({spec.origin}), {'granted' if granted else f'not granted: go-ent grant {spec.name}'}")
    effects = [
        word for word, is_so in (("read-only", spec.hints.read_only), ("destructive", spec.hints.destructive)) if is_so
    ]
    say(f"effects: {', '.join(effects) or 'not known'}\n")
    say(stubs([spec], "stubs"))
    return 0


def examples_command(*names: ToolName, quiet: QuietFlag = False, json_: JsonFlag = False) -> int:
    """Run the examples of the tools named, or of all. Exit code 1 if one does not come true."""

    async def work(composer: Composer) -> int:
        await composer.composed.load()
        chosen = names or tuple(sorted((*composer.composed.found, *composer.composed.broken)))
        failed = 0
        rows = []
        for number, name in enumerate(chosen, 1):
            tell(f"testing {name}, {number} of {len(chosen)}")
            try:
                outcomes = await composer.test(name)
            except Exception as error:
                if isinstance(error, ComposerError) and name in names and name not in composer.composed.broken:
                    raise
                failed += 1
                rows.append({"name": name, "example": None, "ok": False, "problem": reason(error, name), "ms": 0.0})
                continue
            if not outcomes:
                rows.append({"name": name, "example": None, "ok": True, "problem": "it has no examples", "ms": 0.0})
            for outcome in outcomes:
                failed += outcome.problem is not None
                ok = outcome.problem is None
                rows.append(
                    {
                        "name": name,
                        "example": outcome.number,
                        "ok": ok,
                        "problem": outcome.problem,
                        "ms": round(outcome.ms, 3),
                    }
                )
        if json_:
            show_json(rows)
        elif not rows:
            say("no composed tools to test yet: go-ent tool add FILE", err=True)
        else:
            for row in rows:
                which = "" if row["example"] is None else f" example {row['example']}"
                word = "FAILED" if not row["ok"] else "ok    " if row["example"] is not None else "-     "
                say(word, end="", style=STYLES.get(word.strip()))
                say(f" {row['name']}{which}" + (f": {row['problem']}" if row["problem"] else ""))
        return 1 if failed else 0

    return with_composer(work, progress="testing", quiet=quiet or json_)


def history_command(name: ToolName, /, *, json_: JsonFlag = False) -> int:
    async def work(composer: Composer) -> int:
        versions = await composer.history(name)
        current = composer.composed.found.get(name)
        now = current.version if current is not None else None
        if json_:
            show_json(
                [
                    {"version": v.number, "digest": v.digest, "saved": v.saved, "current": v.number == now}
                    for v in versions
                ]
            )
        else:
            for version in versions:
                when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(version.saved))
                say(f"v{version.number}  {version.digest}  {when}{'  current' if version.number == now else ''}")
        return 0

    return with_composer(work, quiet=json_)


def rollback_command(
    name: ToolName, version: Annotated[int, Parameter(help="The version to restore.")], /, *, json_: JsonFlag = False
) -> int:
    async def work(composer: Composer) -> int:
        there = [one.number for one in await composer.history(name)]
        damaged = any(one.number == version for store in composer.stores for one in store.versions(name))
        if version not in there and not damaged:  # of a damaged one, the composer says so
            raise UsageError(f"{name} has no version {version}; it has {', '.join(map(str, there))}")
        made = await composer.rollback(name, version)
        if json_:
            show_json({"name": name, "version": made.number, "from": version, "digest": made.digest})
        else:
            say(f"{name}: version {made.number} is version {version} again")
        return 0

    return with_composer(work, quiet=json_)


def rm_command(*names: ToolName, json_: JsonFlag = False) -> int:
    if not names:
        raise UsageError("rm needs the name of a tool")

    async def work(composer: Composer) -> int:
        removed = []
        failed: list[Exception] = []
        for name in names:
            try:
                scope = await composer.remove(name)
                removed.append({"name": name, "scope": scope})
                if not json_:
                    say(f"{name}: removed from the {scope} store; `go-ent tool rollback {name} VERSION` brings it back")
            except Exception as error:
                failed.append(error)
        if json_:
            show_json(removed)
        for earlier in failed[:-1]:
            say(reason(earlier, "a tool to be removed"), err=True)
        if failed:
            raise failed[-1]
        return 0

    return with_composer(work, quiet=json_)


def search_command(
    *words: Annotated[str, Parameter(help="What the tool should do; without words, list all.")],
    detail: Annotated[Detail, Parameter(help="One line per tool, typed stubs, or schemas too.")] = "brief",
    namespace: Annotated[str | None, Parameter(help="Only tools in this namespace.")] = None,
    limit: Annotated[int, Parameter(help="The most tools to list.")] = 10,
    json_: JsonFlag = False,
) -> int:
    """Search the tools of this project, whatever they come from; those that are not granted are marked. Without words:
    list them. No server is started whose tools are known.
    """

    async def work(composer: Composer) -> int:
        catalogue, grants = composer.catalogue, composer.grants
        if words:
            found = await catalogue.search(" ".join(words), grants, namespace=namespace, limit=limit, others=True)
        else:
            found = await catalogue.tools(grants, namespace, others=True)
        more, found = len(found) - limit, found[: max(limit, 0)]
        if json_:
            show_json([_spec(spec, detail) | {"granted": grants.allows(spec.name)} for spec in found])
        elif found:
            say(show_found(found, detail, grants, "go-ent grant NAME lets code call it"))
        else:
            say(_none_found(composer, searched=bool(words or namespace)), err=True)
        if more > 0 and not json_:
            say(f"and {more} more: --limit, words or --namespace", err=True)
        for origin, problem in catalogue.problems.items():
            say(f"{origin}: {problem}", err=True)
        for source in catalogue.sources:
            for note in getattr(source, "notes", []):
                say(f"{source.origin}: {note}", err=True)
        return 0 if found else 1

    return with_composer(work, quiet=json_)


def _none_found(composer: Composer, *, searched: bool) -> str:
    if searched:
        return "no tool fits: fewer words find more, and go-ent tool search without words lists all"
    if composer.config.allow:
        return f"none of the granted tools can be reached now: {', '.join(composer.config.allow)}"
    return "no tool is granted here yet: go-ent tool add FILE, or go-ent server add and go-ent grant"


def _spec(spec: ToolSpec, detail: Detail) -> dict[str, Any]:
    row: dict[str, Any] = {"name": spec.name, "description": spec.description}
    if detail != "brief":
        row |= {"stub": stubs([spec], "stubs")}
    if detail == "full":
        row |= {"input_schema": spec.input_schema, "output_schema": spec.output_schema}
    return row


def learn_command(name: ToolName, /, *, json_: JsonFlag = False) -> int:
    """Learn the output schema of a tool that has none from the results of past runs. Shown in stubs, marked as
    learned.
    """

    async def work(composer: Composer) -> int:
        schema, seen = await composer.learn(name)
        if json_:
            show_json(schema)
        else:
            say(f"learned from {seen} result{'' if seen == 1 else 's'} of {name}:\n")
            say(stubs([await composer.catalogue.find(name)], "stubs"))
        return 0

    return with_composer(work, quiet=json_)
