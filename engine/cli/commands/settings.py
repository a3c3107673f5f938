"""`go-ent config`: what is set, whether it is right, and the schema for editors."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from go_ent.composer.project.files import find_project
from go_ent.engine.cli import SETUP_ERROR, UsageError
from go_ent.engine.cli.terminal.output import say, show, show_json
from go_ent.engine.cli.terminal.progress import ProgressLine, QuietFlag
from go_ent.engine.cli.terminal.tables import table
from go_ent.engine.settings.schema import whole
from go_ent.sandbox.messages.near_names import did_you_mean, near

JsonFlag = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")]


def show_command(
    section: Annotated[str | None, Parameter(help="Only this section (budget) or part of one (budget.day).")] = None,
    /,
    *,
    json_: JsonFlag = False,
) -> int:
    """The settings in force, and where each comes from: the file and its line, an environment variable, or the default.

    Of what may be a secret only references are shown.
    """
    from go_ent.engine.settings.show import settings_in_force

    found = settings_in_force(find_project())
    if section is not None:
        chosen = [one for one in found if one.name == section or one.name.startswith(f"{section}.")]
        if not chosen and section not in whole().model_fields:
            meant = did_you_mean(near(section, [*whole().model_fields, *(one.name for one in found)]))
            raise UsageError(f"there is no setting {section}{meant}")
        found = chosen
    if json_:
        show_json([asdict(one) for one in found])
        return 0
    from go_ent.engine.settings.template import toml

    table(
        [[one.name, "-" if one.value is None else toml(one.value), one.source] for one in found],
        ["setting", "value", "from"],
    )
    return 0


def check_command(*, json_: JsonFlag = False, quiet: QuietFlag = False) -> int:
    """Look for everything that is wrong with this project, before anything of it is started.

    Settings, the variables and programs that they name, files of servers and APIs, skills, templates, composed tools.
    The exit code is 12 if there is a problem.
    """
    from go_ent.engine.settings.check import check_project

    project = find_project()
    with ProgressLine("checking the project", quiet=quiet or json_):
        checked = asyncio.run(check_project(project))
    if json_:
        show_json({"project": str(project), "ok": checked.ok, **asdict(checked)})
        return 0 if checked.ok else SETUP_ERROR
    for line in checked.problems:
        say(line)
    if not quiet:
        for line in checked.notes:
            say(f"note: {line}", err=True)
    many = len(checked.problems)
    counts = ", ".join(
        f"{count} {name if count != 1 else name.removesuffix('s')}" for name, count in checked.counts.items()
    )
    say(f"no problems: {counts}" if checked.ok else f"{many} problem{'' if many == 1 else 's'}", err=not checked.ok)
    return 0 if checked.ok else SETUP_ERROR


def schema_command(*, json_: JsonFlag = False) -> int:
    """The JSON schema of `.go-ent/config.toml`, for editors; `go-ent init` puts it beside the file. With --json on
    one line.
    """
    from go_ent.engine.settings.schema import schema
    from go_ent.engine.setup.init_project import schema_text

    show_json(schema()) if json_ else show(schema_text().rstrip("\n"))
    return 0
