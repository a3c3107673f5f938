"""`go-ent trust`, `doctor` and `budget`: the project, the machine, the money."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from go_ent.composer.errors import ConfigError
from go_ent.composer.project.files import STATE, find_project
from go_ent.composer.project.trust import set_trust, trusted_projects
from go_ent.engine.cli import SETUP_ERROR, UsageError
from go_ent.engine.cli.commands.shared import JsonFlag, dollars, with_engine
from go_ent.engine.cli.terminal.ask import MAX_ANSWER, at_terminal, is_yes
from go_ent.engine.cli.terminal.output import STYLES, say, screen, show_json
from go_ent.engine.cli.terminal.tables import hanging, table
from go_ent.engine.cli.terminal.variables import unknown_variables

if TYPE_CHECKING:
    from go_ent.engine.engine import Engine
    from go_ent.engine.setup.doctor import Check


def trust_command(
    folder: Annotated[Path | None, Parameter(help="The project's folder; by default the current project.")] = None,
    /,
    *,
    remove: Annotated[bool, Parameter(negative="", help="Stop trusting it.")] = False,
    list_: Annotated[bool, Parameter(name="--list", negative="", help="List the trusted projects.")] = False,
    yes: Annotated[bool, Parameter(negative="", help="Don't ask.")] = False,
    json_: JsonFlag = False,
) -> int:
    """Let a project start what its configuration names: commands, agent programs of its own, servers. Said once for a
    folder.

    What that is comes first, then you are asked; where nobody can be, it takes `--yes`.
    """
    if list_:
        found = sorted(trusted_projects())
        if json_:
            show_json(found)
        else:
            say(
                "\n".join(found) if found else "no project is trusted yet: go-ent trust, in its folder, does",
                err=not found,
            )
        return 0
    if folder is not None and not folder.is_dir():
        raise UsageError(f"there is no folder {folder}")
    project = find_project(folder or ".")
    if not (project / STATE).is_dir():
        raise UsageError(f"{project} is no project: it has no {STATE} folder")
    from go_ent.engine.setup.trust_list import wants

    wanted = [] if remove else wants(project)
    before = str(project.resolve()) in trusted_projects()
    asking = not (yes or remove or before) and (at_terminal() or bool(wanted))
    if wanted and (asking or not json_):
        say(f"{project} wants:", err=json_)
        for line in wanted:
            say(f"  {' '.join(line.splitlines())}", err=json_)  # whole: what is at its end matters as well
    if asking and not at_terminal():
        say("nothing was changed: pass --yes to skip the question", err=True)
        return 1
    if asking and not _agrees(project):
        say("nothing was changed", err=True)
        return 1
    changed = set_trust(project, not remove)
    if json_:
        show_json({"project": str(project), "trusted": not remove, "changed": changed, "wants": wanted})
    else:
        say(f"{project} is {'no longer trusted' if remove else 'trusted'}{'' if changed else ', as it was before'}")
    return 0


def _agrees(project: Path) -> bool:
    say(f"trust {project}? [y/N] ", err=True, end="")
    answer = sys.stdin.readline(MAX_ANSWER)
    screen.open = False
    if not answer.endswith("\n"):  # the end of the input
        say("", err=True)
    return is_yes(answer)


def budget_command(*, json_: JsonFlag = False) -> int:
    """What was spent today and this month, and what the limits are."""

    async def work(engine: Engine) -> int:
        report = await engine.budget()
        if json_:
            show_json(report.model_dump_json())
            return 0
        rows = []
        clients = ((f"{name} today", scope) for name, scope in report.clients.items())
        for name, scope in (("day", report.day), ("month", report.month), *clients):
            rows.append(
                [
                    name,
                    dollars(scope.spent_usd),
                    dollars(scope.reserved_usd),
                    dollars(scope.limit_usd),
                    f"{scope.spent_tokens:,}",
                    "-" if scope.limit_tokens is None else f"{scope.limit_tokens:,}",
                ]
            )
        figures = ["spent", "reserved", "limit", "tokens", "token limit"]
        table(rows, ["", *figures], right=figures)
        for name, scope in (("day", report.day), ("month", report.month)):
            if scope.estimated_usd or scope.estimated_tokens:
                say(
                    f"{name}: {dollars(scope.estimated_usd)} and {scope.estimated_tokens:,} tokens of it are "
                    "estimates: runs did not tell"
                )
            if scope.overshoot_usd:
                say(f"{name}: {dollars(scope.overshoot_usd)} of it is more than was held for the runs", style="yellow")
        return 0

    return with_engine(work, quiet=json_)


def doctor_command(
    *,
    servers: Annotated[
        bool,
        Parameter(name=("--servers", "--deep"), negative="--no-servers", help="Connect to the configured servers."),
    ] = True,
    json_: JsonFlag = False,
) -> int:
    """Look at this machine and this project, and say what to do about each problem.

    The exit code is 12 if something keeps go-ent from working, 1 if a server of the project is broken, else 0: an agent
    program that is not installed is no fault. It ends with the one thing to do next.
    """
    from go_ent.engine.setup.doctor import examine, explain_config

    async def work(engine: Engine) -> int:
        return _print(await examine(engine, deep=servers), json_=json_)

    try:
        return with_engine(work, progress="looking", quiet=json_)
    except ConfigError as error:
        return _print(explain_config(error, find_project(".")), json_=json_)


def _print(checks: list[Check], *, json_: bool) -> int:
    if json_:
        show_json([asdict(check) for check in checks])
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            mark = "ok" if check.ok else "NO" if check.needed else "-"
            say(f"{mark:<2}", end="", style=STYLES.get(mark))
            say(f"  {check.name:<{width}}  {hanging(' '.join(check.said.split()), width + 6)}")
            if check.fix and not check.ok:
                say(f"{'':<{width + 6}}{hanging(f'fix: {check.fix}', width + 6)}")
            elif check.fix:
                say(f"{'':<{width + 6}}{hanging(check.fix, width + 6)}")
        for line in unknown_variables():
            say(f"-   {line}")
        problems = [check for check in checks if not check.ok and (check.needed or check.broken)]
        if problems:
            say(
                f"{len(problems)} problem{'' if len(problems) == 1 else 's'} to mend: "
                f"{', '.join(one.name for one in problems)}",
                err=True,
            )
        say(f"next: {_next(checks)}")
    if any(not check.ok and check.needed for check in checks):
        return SETUP_ERROR
    return 1 if any(not check.ok and check.broken for check in checks) else 0


def _next(checks: list[Check]) -> str:
    """The one thing to do now."""
    wrong = [check for check in checks if not check.ok]
    first = [check for check in wrong if check.needed] or [check for check in wrong if check.broken]
    first = first or [check for check in wrong if check.name in ("image", "sandbox", "trust")]
    if first:
        return first[0].fix or f"mend {first[0].name}"
    if not (find_project(".") / STATE).is_dir():
        return "go-ent init makes this folder a project"
    if any(check.name == "servers" and check.ok for check in checks):
        return "go-ent doctor asks the servers too; all else is well"
    return "all is well: go-ent exec -c '1 + 1', or go-ent serve"
