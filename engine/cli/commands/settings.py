"""`go-ent config`: what is set, whether it is right, and the schema for editors."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter
from pydantic_core import to_json

from go_ent.composer.project.files import STATE, find_project
from go_ent.engine.cli import SETUP_ERROR, UsageError
from go_ent.engine.cli.terminal.output import say, show, show_json
from go_ent.engine.cli.terminal.progress import ProgressLine, QuietFlag
from go_ent.engine.cli.terminal.tables import table
from go_ent.engine.cli.terminal.variables import unknown_variables
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
    checked.notes.extend(unknown_variables())
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


def get_command(
    name: Annotated[str, Parameter(help="The setting: limits.timeout_s, or a section: limits.")],
    /,
    *,
    json_: JsonFlag = False,
) -> int:
    """One setting's value as it is in force: text as it is, anything else as JSON. Of secrets only the reference."""
    from go_ent.engine.settings.show import settings_in_force

    found = settings_in_force(find_project())
    values = {one.name: one.value for one in found if one.name == name or one.name.startswith(f"{name}.")}
    if not values:
        raise UsageError(f"there is no setting {name}{did_you_mean(near(name, [one.name for one in found]))}")
    value = values[name] if name in values else {key.removeprefix(f"{name}."): one for key, one in values.items()}
    show(value) if isinstance(value, str) and not json_ else show_json(to_json(value).decode())
    return 0


def set_command(
    name: Annotated[str, Parameter(help="The setting: limits.timeout_s.")],
    value: Annotated[
        str, Parameter(help="Its value: a number, true, a TOML list, or a text.", allow_leading_hyphen=True)
    ],
    /,
    *,
    json_: JsonFlag = False,
) -> int:
    """Change one setting in `.go-ent/config.toml`; comments and layout stay. What would be wrong is not written."""
    from go_ent.engine.settings.edit import set_value

    project = find_project()
    lines = set_value(project, name.split("."), value)
    if json_:
        show_json({"setting": name, "changed": lines})
    else:
        for line in lines:
            say(line, style="green" if line.startswith("+") else "red")
        if not lines:
            say(f"{name} is that already", err=True)
    return 0


def edit_command(*, json_: JsonFlag = False) -> int:
    """Open `.go-ent/config.toml` in the editor that VISUAL or EDITOR names; then check what it says."""
    from go_ent.composer.project.layers import CONFIG
    from go_ent.engine.cli.terminal.editor import NoEditor, edit

    project = find_project()
    if not (project / STATE).is_dir():
        raise UsageError(f"{project} is no project: go-ent init makes it one")
    try:
        code = edit(project / CONFIG)
    except NoEditor as error:
        raise UsageError(str(error)) from None
    if code:
        raise UsageError(f"the editor ended with exit code {code}: nothing was checked")
    return check_command(json_=json_)


def schema_command(*, json_: JsonFlag = False) -> int:
    """The JSON schema of `.go-ent/config.toml`, for editors; `go-ent init` puts it beside the file. With --json on
    one line.
    """
    from go_ent.engine.settings.schema import schema
    from go_ent.engine.setup.init_project import schema_text

    show_json(schema()) if json_ else show(schema_text().rstrip("\n"))
    return 0
