"""`go-ent server`: the servers and APIs of a project, and their tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from go_ent.composer.project.files import find_project
from go_ent.engine.cli import SETUP_ERROR, UsageError
from go_ent.engine.cli.commands.shared import JsonFlag
from go_ent.engine.cli.terminal.completion_values import ServerName
from go_ent.engine.cli.terminal.output import ago, say, show_json
from go_ent.engine.cli.terminal.progress import ProgressLine, QuietFlag
from go_ent.engine.cli.terminal.tables import hanging, table
from go_ent.engine.setup.servers import Answer, Servers

if TYPE_CHECKING:
    from go_ent.composer.catalogue.spec import ToolSpec

MOST_CHANGES = 20


def with_servers(
    work: Callable[[Servers], Coroutine[Any, Any, int]], *, progress: str = "asking", quiet: bool = False
) -> int:
    """Do something with the servers of the project that this folder is in. No sandbox is needed for it."""
    servers = Servers(find_project("."))
    with ProgressLine(progress, quiet=quiet):
        return asyncio.run(work(servers))


def list_command(*, json_: JsonFlag = False) -> int:
    """The servers and APIs that this project names: what is known of each, and how many of its tools are granted.
    Nothing is started.
    """

    async def work(servers: Servers) -> int:
        rows = [await _row(servers, name) for name in servers.names]
        rows += [
            {"name": name, "kind": "", "state": f"unusable: {why}", "tools": None, "granted": None, "reached": ""}
            for name, why in servers.config.unusable.items()
        ]
        if json_:
            show_json(rows)
            return 0
        if not rows:
            say("no servers yet: go-ent server add NAME -- COMMAND, or a URL, or an OpenAPI file", err=True)
            return 0
        cells = [
            [row["name"], row["kind"], row["state"], _of(row["granted"], row["tools"]), row["reached"]] for row in rows
        ]
        table(cells, ["name", "kind", "state", "granted", "reached by"], spare=("kind", "reached by"))
        return 0

    return with_servers(work, quiet=json_)


async def _row(servers: Servers, name: str) -> dict[str, Any]:
    copy = await servers.copy(name)
    names = None if copy is None else [*copy.listing.entries]
    granted = None if names is None else sum(map(servers.config.grants.allows, names))
    state = "not listed yet" if copy is None else f"listed {ago(copy.listed)}"
    if not servers.trusted:
        state = "not trusted"
    elif (login := servers.login_state(name)) is not None:
        state = f"{login}, {state}"
    return {
        "name": name,
        "kind": servers.kind(name),
        "state": state,
        "tools": None if names is None else len(names),
        "granted": granted,
        "listed": None if copy is None else copy.listed,
        "server": "" if copy is None else copy.server,
        "reached": servers.reached(name),
    }


def _of(granted: int | None, tools: int | None) -> str:
    return "-" if tools is None else f"{granted} of {tools}"


def tools_command(
    name: ServerName,
    /,
    *words: Annotated[str, Parameter(help="Only tools that fit these words, the best first.")],
    quiet: QuietFlag = False,
    json_: JsonFlag = False,
) -> int:
    """The tools of a server, a line each: whether it is granted, what it says of its effects, and what it does. The
    server is started only if its tools are not known yet.
    """

    async def work(servers: Servers) -> int:
        copy = await servers.copy(name)
        specs = None if copy is None else copy.listing.specs
        notes: list[str] = [] if copy is None else [*copy.listing.notes]
        if specs is None:
            (answer,) = await _asked(servers, [name])
            if answer.problem:
                _say_failed(answer)
                return SETUP_ERROR
            specs, notes = answer.tools, answer.notes
        if words:
            from go_ent.composer.catalogue.search import Index

            specs = Index(specs).search(" ".join(words), limit=len(specs))
        rows = [_tool(servers, spec) for spec in specs]
        if json_:
            show_json(rows)
            return 0
        width = max((len(row["name"]) for row in rows), default=0)
        for row in rows:
            marks = "granted    " if row["granted"] else "not granted"
            begin = f"{row['name']:<{width}}  {marks}  {row['effects']:<11}  "
            say(f"{begin}{hanging(row['description'], len(begin))}".rstrip())
        for note in notes:
            say(f"{name}: {note}", err=True)
        if not rows:
            say(f"no tool of {name} fits" if words else f"{name} has no tools", err=True)
        return 0 if rows else 1

    return with_servers(work, quiet=quiet or json_)


def _tool(servers: Servers, spec: ToolSpec) -> dict[str, Any]:
    hints = spec.hints
    effects = "destructive" if hints.destructive and not hints.read_only else "read-only" if hints.read_only else ""
    return {
        "name": spec.name,
        "granted": servers.config.grants.allows(spec.name),
        "effects": effects,
        "description": spec.description.strip().partition("\n")[0][:200],
    }


def refresh_command(*names: ServerName, quiet: QuietFlag = False, json_: JsonFlag = False) -> int:
    """Ask servers, or all of them, what tools they have now, and tell what has changed. The exit code is 12 if one does
    not answer.
    """

    async def work(servers: Servers) -> int:
        answers = await _asked(servers, [*names] or servers.names)
        if json_:
            show_json([_as_json(answer) for answer in answers])
        else:
            if not answers:
                say("no servers yet: go-ent server add NAME -- COMMAND, or a URL, or an OpenAPI file", err=True)
            for answer in answers:
                say_answer(servers, answer)
        return SETUP_ERROR if any(answer.problem for answer in answers) else 0

    return with_servers(work, quiet=quiet or json_)


async def _asked(servers: Servers, names: list[str]) -> list[Answer]:
    for name in names:
        servers.check(name)
    if names and not servers.trusted:
        raise UsageError(f"{servers.project} is not trusted, so none of its servers is started: go-ent trust")
    return await servers.ask(names)


def _as_json(answer: Answer) -> dict[str, Any]:
    return {
        "name": answer.name,
        "ok": not answer.problem,
        "tools": len(answer.tools),
        "server": answer.server,
        "changes": answer.changes,
        "notes": answer.notes,
        "problem": answer.problem,
        "fix": answer.remedy,
    }


def say_answer(servers: Servers, answer: Answer) -> None:
    """What a server said, for a person."""
    if answer.problem:
        _say_failed(answer)
        return
    granted = sum(servers.config.grants.allows(spec.name) for spec in answer.tools)
    count = f"{len(answer.tools)} tool{'' if len(answer.tools) == 1 else 's'}, {granted} granted"
    say(f"{answer.name}: {count}" + (f" ({answer.server})" if answer.server else ""))
    changes = [f"{name} {what}" for name, what in answer.changes.items()]
    for line in changes[:MOST_CHANGES]:
        say(f"  {line}")
    if len(changes) > MOST_CHANGES:
        say(f"  and {len(changes) - MOST_CHANGES} more")
    for note in answer.notes:
        say(f"  {note}")
    if answer.tools and not granted:
        say(f"  to let code call them: go-ent grant '{answer.name}.*', or the name of one", err=True)


def _say_failed(answer: Answer) -> None:
    say(f"{answer.name}: {answer.problem}", err=True)
    say(f"  fix: {answer.remedy}", err=True)
