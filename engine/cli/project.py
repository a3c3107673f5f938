"""`go-ent trust`, `doctor` and `budget`: the project, the machine, the money."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic_core import to_json

from composer import ConfigError
from composer.config import read_config
from composer.folders import STATE, find_project
from composer.trust import VARIABLE, is_trusted, set_trust, trusted_projects
from engine.cli import SETUP_ERROR, UsageError
from engine.cli.engine import MAX_ANSWER, JsonFlag, at_terminal, dollars, is_yes, table, with_engine
from engine.cli.texts import say, show
from engine.config import read_engine_config
from engine.dispatch import OBEYED
from engine.engine import Engine
from engine.prompts import all_skills


def trust_command(
    folder: Annotated[Path | None, Parameter(help="A project; this one by default.")] = None,
    /,
    *,
    remove: Annotated[bool, Parameter(negative="", help="Trust it no more.")] = False,
    list_: Annotated[bool, Parameter(name="--list", negative="", help="The projects that are trusted.")] = False,
    yes: Annotated[bool, Parameter(negative="", help="Don't ask.")] = False,
    json_: JsonFlag = False,
) -> int:
    """Let a project start what its configuration names: commands, agent programs of its own, servers. Said once for a folder.

    What that is comes first; on a terminal you are asked then.
    """
    if list_:
        found = sorted(trusted_projects())
        if json_:
            show(to_json(found).decode())
        else:
            say("\n".join(found) or "no project is trusted")
        return 0
    project = find_project(folder or ".")
    if not (project / STATE).is_dir():
        raise UsageError(f"{project} is no project: it has no {STATE} folder")
    wants = [] if remove else _wants(project)
    before = str(project.resolve()) in trusted_projects()
    asking = at_terminal() and not (yes or remove or before)
    if wants and (asking or not json_):
        say(f"{project} wants:", err=json_)
        for line in wants:
            say(f"  {' '.join(line.splitlines())}", err=json_)  # whole: what is at its end matters as well
    if asking and not _agrees(project):
        say("nothing was changed", err=True)
        return 1
    changed = set_trust(project, not remove)
    if json_:
        show(to_json({"project": str(project), "trusted": not remove, "changed": changed, "wants": wants}).decode())
    else:
        say(f"{project} is {'no longer trusted' if remove else 'trusted'}{'' if changed else ', as it was before'}")
    return 0


def _agrees(project: Path) -> bool:
    say(f"trust {project}? [y/N] ", err=True, end="")
    return is_yes(sys.stdin.readline(MAX_ANSWER))


def _wants(project: Path) -> list[str]:
    """What a project gets to start or to say once it is trusted, for a person to see. Of variables the names alone."""
    tools, engine = read_config(project), read_engine_config(project)
    lines = []
    for name, server in tools.servers.items():
        what = server.url or " ".join([str(server.command), *server.args])
        lines.append(f"server {name}: {what}{_named('sets', server.env)}{_named('headers', server.headers)}")
    for name, api in tools.apis.items():
        lines.append(f"API {name}: {api.base_url or api.document}{_named('headers', api.headers)}")
    for name, command in engine.commands.items():
        lines.append(f"command {name}: {' '.join(command.argv)}{_named('sees', command.env)}{_named('sets', command.set)}")
    for name, runner in engine.runners.items():
        if runner.starts:
            argv = " ".join([*(runner.command or (name,)), *runner.args])
            lines.append(f"runtime {name}: {argv}{_named('sees', runner.env)}{_named('sets', runner.set)}")
    lines += [f"prompt {path.relative_to(project)}" for path in sorted((project / STATE / "prompts").glob("*.j2"))]
    lines += [f"agents obey {name}" for name in OBEYED if (project / name).exists()]
    return lines


def _named(word: str, names: Collection[str]) -> str:
    return f" ({word} {', '.join(names)})" if names else ""


def budget_command(*, json_: JsonFlag = False) -> int:
    """What was spent today and this month, and what the limits are."""

    async def work(engine: Engine) -> int:
        report = await engine.budget()
        if json_:
            show(report.model_dump_json())
            return 0
        rows = []
        for name, scope in (("day", report.day), ("month", report.month)):
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
        table(rows, ["", "spent", "reserved", "limit", "tokens", "limit"])
        return 0

    return with_engine(work)


def doctor_command(*, json_: JsonFlag = False) -> int:
    """Look at this machine and this project, and say what to do about each problem."""

    async def work(engine: Engine) -> int:
        checks = _machine() + _project(engine)
        for name, found in (await engine.runtimes()).items():
            checks.append({"name": name, "ok": found.ok, "said": found.version or "ready" if found.ok else found.reason, "needed": False})
        return _print(checks, json_=json_)

    try:
        return with_engine(work)
    except ConfigError as error:
        return _print([*_machine(), {"name": "configuration", "ok": False, "said": str(error), "needed": True}], json_=json_)


def _machine() -> list[dict[str, Any]]:
    from sandbox.images import cache_folder

    cache = cache_folder()
    writable = os.access(next(folder for folder in (cache, *cache.parents) if folder.exists()), os.W_OK)
    free = shutil.disk_usage(next(folder for folder in (cache, *cache.parents) if folder.exists())).free >> 20
    linux = platform.system() == "Linux"
    return [
        {
            "name": "platform",
            "ok": linux,
            "said": f"{platform.system()} {platform.machine()}" + ("" if linux else ": only Linux is supported"),
        },
        {"name": "python", "ok": sys.version_info >= (3, 11), "said": platform.python_version()},
        {
            "name": "cache",
            "ok": writable,
            "said": str(cache) + ("" if writable else " can't be written: set GO_ENT_CACHE to a folder that can"),
        },
        {"name": "disk", "ok": free > 500, "said": f"{free} MB free" + ("" if free > 500 else ": an image takes about 150 MB")},
    ]


def _project(engine: Engine) -> list[dict[str, Any]]:
    project = engine.project
    is_project = (project / STATE).is_dir()
    checks: list[dict[str, Any]] = [{"name": "project", "ok": True, "said": f"{project}" + ("" if is_project else " (nothing saved yet)")}]
    config = read_config(project)
    allowed = ", ".join(config.allow) or "composed tools and functions only"
    checks.append(
        {"name": "configuration", "ok": True, "said": "valid" if (project / STATE / "config.toml").exists() else "none: the defaults"}
    )
    checks.append({"name": "grants", "ok": True, "said": allowed})
    for skill in all_skills(project):
        if skill.problem:
            checks.append({"name": "skill", "ok": False, "said": f"{skill.name} can't be used: {skill.problem}", "needed": False})
    wants = _wants(project)
    if wants:
        trusted = is_trusted(project)
        by = f" by {VARIABLE}" if os.environ.get(VARIABLE) else ""
        said = f"trusted{by}" if trusted else f"not trusted, so {len(wants)} things are not started or used: go-ent trust lists them"
        checks.append({"name": "trust", "ok": trusted, "said": said, "needed": False})
    return checks


def _print(checks: list[dict[str, Any]], *, json_: bool) -> int:
    if json_:
        show(to_json([{"needed": True, **check} for check in checks]).decode())
    else:
        for check in checks:
            mark = "ok " if check["ok"] else "NO " if check.get("needed", True) else "-  "
            say(f"{mark} {check['name']:<14} {check['said']}")
    return 0 if all(check["ok"] or not check.get("needed", True) for check in checks) else SETUP_ERROR
