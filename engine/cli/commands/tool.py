"""`go-ent tool`: composed tools at the command line."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from cyclopts import Parameter

from go_ent.composer import Approver, Composer, ComposerError, ToolSpec
from go_ent.composer.catalogue.catalogue import Detail, show_found
from go_ent.composer.catalogue.catalogue import show as stubs
from go_ent.composer.composed.checks import ExampleOutcome
from go_ent.composer.composed.source import Broken, Composed
from go_ent.composer.composed.usage import Used
from go_ent.composer.errors import NotGranted
from go_ent.composer.project.items import reason
from go_ent.engine.cli import SETUP_ERROR, UsageError
from go_ent.engine.cli.commands.exec import language_of, print_run
from go_ent.engine.cli.commands.recorded import say_unmatched, with_composer, with_guests
from go_ent.engine.cli.commands.shared import HereFlag, LabelOption, refuse_both
from go_ent.engine.cli.inputs.reading import read_input, refuse_ignored
from go_ent.engine.cli.inputs.tool_help import show_tool_help
from go_ent.engine.cli.inputs.values import Arguments
from go_ent.engine.cli.terminal.completion_values import AnyToolName, ToolName
from go_ent.engine.cli.terminal.formats import OutputFlag
from go_ent.engine.cli.terminal.output import STYLES, is_rich, plain, say, show_json, tty
from go_ent.engine.cli.terminal.progress import QuietFlag, tell
from go_ent.engine.cli.terminal.tables import hanging, table
from go_ent.engine.cli.terminal.watching import watched
from go_ent.engine.core.outcomes import EXIT_CODES
from go_ent.engine.guest_runs.runs import GuestOrder, Guests, call_order
from go_ent.sandbox import Limits
from go_ent.sandbox.worker.languages import Language

JsonFlag = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")]
StubLanguage = Annotated[
    str | None, Parameter(name=["-l", "--language"], help="The language that stubs are in: python or ts.")
]


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
        "language": tool.language if isinstance(tool, Composed) else None,
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
    language: StubLanguage = None,
    json_: JsonFlag = False,
) -> int:
    spoken = language_of(language, None)

    async def work(composer: Composer) -> int:
        if await composer.is_elsewhere(name):
            if source:
                raise UsageError(f"{name} is not a composed tool: its source is not here")
            return await show_any(composer, name, spoken, json_=json_)
        tool = await composer.composed.get(name)
        if json_:
            interface = tool.interface.model_dump()
            show_json(
                {
                    "name": tool.name,
                    "version": tool.version,
                    "scope": tool.scope,
                    "language": tool.language,
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
            say(stubs([tool.spec], "stubs", language=spoken if language else tool.language))
        return 0

    return with_composer(work, quiet=json_)


TypedValues = Annotated[
    str,
    Parameter(
        help="The tool's arguments: --NAME VALUE, NAME=VALUE, NAME:=JSON; a value may be @FILE, or - for stdin.",
        allow_leading_hyphen=True,
    ),
]
TypedInput = Annotated[
    str | None,
    Parameter(help="The arguments as JSON instead; @FILE reads a file, - stdin.", allow_leading_hyphen=True),
]


def run_command(
    name: AnyToolName,
    /,
    *values: TypedValues,
    input: TypedInput = None,
    each: Annotated[
        bool,
        Parameter(
            negative="",
            help="Run once per FILE given, or per JSON value of stdin, concurrently; results keep the order.",
        ),
    ] = False,
    slurp: Annotated[bool, Parameter(negative="", help="Run once over the list of all JSON values of stdin.")] = False,
    fail_fast: Annotated[bool, Parameter(negative="", help="With --each: stop at the first one that fails.")] = False,
    jobs: Annotated[int | None, Parameter(help="With --each: how many to run at once.")] = None,
    grant: Annotated[
        list[str] | None, Parameter(help="Let the tool call only these tools, of those granted; repeatable.")
    ] = None,
    timeout: Annotated[float | None, Parameter(help="Wall time in seconds.")] = None,
    cpu: Annotated[float | None, Parameter(help="CPU time in seconds.")] = None,
    memory: Annotated[int | None, Parameter(help="Memory in MB.")] = None,
    here: HereFlag = False,
    label: LabelOption = None,
    output: OutputFlag = None,
    yes: Annotated[bool, Parameter(negative="", help="Approve calls that need approval.")] = False,
    quiet: QuietFlag = False,
    json_: Annotated[
        bool, Parameter(name="--json", negative="", help="Print each whole run as a JSON object.")
    ] = False,
) -> int:
    """Run a composed tool, or call any other, and print the result: text as it is, anything else as JSON.

    go-ent tool run NAME --help shows the tool's own parameters. A value without a name is the tool's only parameter, or
    the only one that must be given.

    With --each, a file is one value: JSON, or else text; one that ends in .jsonl has a value a line. Without files,
    stdin holds a JSON value a line, or printed over several. An object of the tool's own parameters gives the
    arguments; any other value is that of its first parameter. Results are printed as they come, one JSON value a
    line, or with --output all at the end. --slurp makes one list of all values of stdin.

    Example: go-ent tool run errors --log @access.log --least 400
    """
    _refuse_contradiction(each=each, slurp=slurp, many=fail_fast or jobs is not None, raw=output == "raw")
    if jobs is not None and jobs < 1:
        raise UsageError("--jobs must be at least 1")
    refuse_both(here=here, label=label)
    inputs = None if input is None else read_input(input)
    if not (each or slurp or input == "-" or any(value.endswith("-") for value in values)):
        refuse_ignored("pass it as an argument (NAME=-), or run the tool over it with --each or --slurp")
    chosen = {"timeout_s": timeout, "cpu_s": cpu, "memory_mb": memory}
    limits = Limits(**{key: value for key, value in chosen.items() if value is not None})
    narrower = {key: getattr(limits, key) for key in limits.model_fields_set}
    options: dict[str, Any] = {"grants": None if grant is None else tuple(grant), "limits": narrower}

    async def work(composer: Composer, guests: Guests, approver: Approver | None) -> int:
        from go_ent.engine.cli.commands.pipeline import Shown, feed, run_batch, slurped
        from go_ent.engine.cli.inputs.sources import Files
        from go_ent.engine.cli.terminal.background import in_background
        from go_ent.engine.guest_runs.batch import Batch

        if not quiet:
            await say_unmatched(composer, grant)
        composer.box.limits.narrowed(narrower)  # a wider limit is refused before anything runs
        if not (each or slurp) and await composer.is_elsewhere(name):
            spec = await _granted(composer, name)
            given = _arguments(spec, inputs, values)
            run = await guests.run(order_for(spec, given, **options), approver=approver, label=label)
            print_run(run, project=composer.project, whole=json_, is_tool=True, bare=True, form=output)
            return EXIT_CODES[run.status]
        tool = await composer.composed.get(name)
        if not (each or slurp):
            order = GuestOrder(tool=name, inputs=_arguments(tool.spec, inputs, values), cut=False, **options)
            run = await guests.run(order, approver=approver, label=label)
            print_run(run, project=composer.project, whole=json_, is_tool=True, form=output, source=tool.file.source)
            return EXIT_CODES[run.status]
        typed = Arguments(name, tool.interface.input_schema).split(values)
        given = {**_object(name, inputs), **typed.arguments}
        order = GuestOrder(tool=name, inputs=given, cut=False, **options)
        if each:
            named = [] if typed.bare == ["-"] else typed.bare
            files = tuple(map(os.path.abspath, named))
            source = Files(files) if named else None
            many = {"each": True, "each_files": files, "jobs": jobs, "fail_fast": fail_fast}
            elsewhere = None if here or yes else guests.elsewhere
            send = None if elsewhere is None else partial(elsewhere.lines, label=label)
            async with await Batch.begin(guests, order.model_copy(update=many), composer, send) as batch:
                return await run_batch(batch, approver, Shown(json_, quiet, None if json_ else output), source)
        if typed.bare:
            raise UsageError(f"unexpected: {typed.bare[0][:80]!r}; --slurp reads stdin")
        given = feed(tool, given, await in_background(slurped), as_list=True)
        run = await guests.run(order.model_copy(update={"inputs": given}), approver=approver, label=label)
        print_run(run, project=composer.project, whole=json_, is_tool=True, form=output, source=tool.file.source)
        return EXIT_CODES[run.status]

    return with_guests(work, yes=yes, progress="running", quiet=quiet or json_)


def _refuse_contradiction(*, each: bool, slurp: bool, many: bool, raw: bool) -> None:
    if each and slurp:
        raise UsageError("--each runs once for each value, --slurp once over all: choose one")
    if not each and many:
        raise UsageError("--jobs and --fail-fast are about many values: they go with --each")
    if each and raw:
        raise UsageError("--output raw prints one result: with --each there is one JSON value a line")


def _arguments(spec: ToolSpec, given: Any, values: Sequence[str]) -> dict[str, Any]:
    """What was given as JSON and what was typed. A value that is no object is the only parameter's."""
    known = Arguments(spec.name, spec.input_schema)
    if given is not None and not isinstance(given, dict):
        given = {known.left({}): given}
    return known.read(values, given)


def _object(name: str, given: Any) -> dict[str, Any]:
    if given is not None and not isinstance(given, dict):
        raise UsageError(f"--input must be a JSON object of {name}'s parameters here, not {type(given).__name__}")
    return given or {}


def call_command(
    name: AnyToolName,
    /,
    *values: TypedValues,
    input: TypedInput = None,
    output: OutputFlag = None,
    yes: Annotated[bool, Parameter(negative="", help="Approve calls that need approval.")] = False,
    quiet: QuietFlag = False,
    json_: Annotated[bool, Parameter(name="--json", negative="", help="Print the whole run as a JSON object.")] = False,
) -> int:
    """Call any granted tool once and print its result: one of a server or an API, or a composed tool. The call is on
    record, like a run of code.

    Example: go-ent tool call shop.orders customer=7
    """
    inputs = None if input is None else read_input(input)
    if not (input == "-" or any(value.endswith("-") for value in values)):
        refuse_ignored("pass it as an argument (NAME=-)")

    async def work(composer: Composer, guests: Guests, approver: Approver | None) -> int:
        if not quiet:
            await say_unmatched(composer)
        if not await composer.is_elsewhere(name):
            await composer.composed.get(name)  # of one that is not there, or broken, it says more
        spec = await _granted(composer, name)
        order = order_for(spec, _arguments(spec, inputs, values))
        run = await guests.run(order, approver=approver)
        print_run(run, project=composer.project, whole=json_, is_tool=True, bare=order.tool is None, form=output)
        return EXIT_CODES[run.status]

    return with_guests(work, yes=yes, progress=f"calling {name}", quiet=quiet or json_)


def help_command(name: str) -> int:
    """The help of one tool, by its own schema."""

    async def work(composer: Composer) -> int:
        example = None
        if await composer.is_elsewhere(name):
            await composer.catalogue.load_known()
            spec = composer.catalogue.known(name) or await composer.catalogue.find(name)
        else:
            tool = await composer.composed.get(name)
            spec = tool.spec
            example = tool.file.metadata.examples[0].inputs if tool.file.metadata.examples else None
        show_tool_help(name, spec.description, spec.input_schema, example)
        return 0

    return with_composer(work, quiet=True)


async def _granted(composer: Composer, name: str) -> ToolSpec:
    try:
        return await composer.catalogue.get(name, composer.grants)
    except NotGranted:
        why = await composer.catalogue.refusal(name, composer.grants)
        raise (
            NotGranted(name, f"go-ent grant {name} lets code call it") if isinstance(why, NotGranted) else why
        ) from None


def order_for(spec: ToolSpec, arguments: dict[str, Any], **options: Any) -> GuestOrder:
    """One call of a tool, as an execution: of a composed tool a run of it, of any other a line of code."""
    if spec.digest:
        return GuestOrder(tool=spec.name, inputs=arguments, cut=False, **options)
    return call_order(spec.name, arguments, cut=False, **options)


async def show_any(composer: Composer, name: str, language: Language = "python", *, json_: bool) -> int:
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
    say(stubs([spec], "stubs", language=language))
    return 0


def _outcome(outcome: ExampleOutcome) -> dict[str, Any]:
    """How an example went; of one that did not come true, all that is known."""
    ok = outcome.problem is None
    row = {"example": outcome.number, "ok": ok, "problem": outcome.problem, "ms": round(outcome.ms, 3)}
    return (
        row
        if ok
        else row
        | {
            "differences": [asdict(one) for one in outcome.differences],
            "unmatched": [{"tool": call.tool, "arguments": call.arguments} for call in outcome.unmatched],
            "unused": list(outcome.unused),
            "printed": outcome.printed,
            "lines": outcome.lines,
        }
    )


def _say_outcomes(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        which = "" if row["example"] is None else f" example {row['example']}"
        word = "FAILED" if not row["ok"] else "ok    " if row["example"] is not None else "-     "
        say(word, end="", style=STYLES.get(word.strip()))
        say(f" {row['name']}{which}" + (f": {row['problem']}" if row["problem"] else ""))
        for line in row.get("lines", ()):
            say(line)


def examples_command(
    *names: ToolName,
    watch: Annotated[bool, Parameter(negative="", help="Test tools again whenever their files change.")] = False,
    quiet: QuietFlag = False,
    json_: JsonFlag = False,
) -> int:
    """Run the examples of the tools named, or of all. Exit code 1 if one does not come true."""

    async def work(composer: Composer, names: tuple[str, ...] = names) -> int:
        await composer.composed.load()
        chosen = names or tuple(sorted((*composer.composed.found, *composer.composed.broken)))
        failed = 0
        rows: list[dict[str, Any]] = []
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
                rows.append({"name": name, **_outcome(outcome)})
        if json_:
            show_json(rows)
        elif not rows:
            say("no composed tools to test yet: go-ent tool add FILE", err=True)
        else:
            _say_outcomes(rows)
        return 1 if failed else 0

    return with_composer(watched(work, names, watch=watch), progress="testing", quiet=quiet or json_ or watch)


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
    language: StubLanguage = None,
    json_: JsonFlag = False,
) -> int:
    """Search the tools of this project, whatever they come from; those that are not granted are marked. Without words:
    list them. No server is started whose tools are known.
    """
    if limit < 1:
        raise UsageError(f"--limit is how many are listed: 1 or more, not {limit}")
    spoken = language_of(language, None)

    async def work(composer: Composer) -> int:
        catalogue, grants = composer.catalogue, composer.grants
        if words:
            found = await catalogue.search(" ".join(words), grants, namespace=namespace, limit=limit, others=True)
        else:
            found = await catalogue.tools(grants, namespace, others=True)
        more, found = len(found) - limit, found[: max(limit, 0)]
        if json_:
            show_json([_spec(spec, detail, spoken) | {"granted": grants.allows(spec.name)} for spec in found])
        elif found:
            shown = show_found(found, detail, grants, "go-ent grant NAME lets code call it", spoken)
            say("\n".join(hanging(line, 4) for line in shown.splitlines()) if detail == "brief" else shown)
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


def _spec(spec: ToolSpec, detail: Detail, language: Language) -> dict[str, Any]:
    row: dict[str, Any] = {"name": spec.name, "description": spec.description}
    if detail != "brief":
        row |= {"stub": stubs([spec], "stubs", language=language)}
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
