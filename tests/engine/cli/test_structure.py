"""What every command has in common: groups, examples, global options, completion, settings, variables."""

from __future__ import annotations

import inspect
import json
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import pytest
from cyclopts import Parameter

from go_ent.composer.sources.kept_names import listings_folder
from go_ent.engine.cli import app
from go_ent.engine.cli.command_examples import EXAMPLES
from go_ent.engine.cli.command_table import COMMANDS, GROUPS
from go_ent.engine.cli.completing import VALUES, completed
from go_ent.engine.cli.global_options import take_globals
from go_ent.engine.cli.terminal.variables import unknown_variables
from tests.support.shell import go_ent


@pytest.fixture
def project(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(project)
    return project


def test_help_has_the_commands_in_groups() -> None:
    shown = go_ent("--help").stdout.decode()
    places = [shown.index(f"{title}:") for title in GROUPS]
    assert places == sorted(places)
    top = [typed for typed, _, _ in COMMANDS if " " not in typed]
    grouped = " ".join(GROUPS.values()).split()
    assert [name for name in top if name not in grouped] == []
    assert "Before any command: -C DIR" in " ".join(shown.split())


def test_each_command_has_an_example() -> None:
    for typed, module, _ in COMMANDS:
        if module:
            _, apps, _ = app.parse_commands(typed.split())
            doc = inspect.getdoc(apps[-1].default_command) or ""
            assert "Example: " in doc or EXAMPLES[typed].find(f"go-ent {typed}") >= 0, typed
    assert set(EXAMPLES) <= {typed for typed, _, _ in COMMANDS}
    assert "Example: go-ent grant 'shop.*'" in go_ent("grant", "--help").stdout.decode()


@pytest.mark.parametrize(
    ("words", "rest", "folder"),
    [
        (["-C", "d", "ps"], ["ps"], "d"),
        (["--project=d", "--json", "ps"], ["ps", "--json"], "d"),
        (["-q", "exec", "-c", "1", "--", "x"], ["exec", "-c", "1", "-q", "--", "x"], None),
        (["exec", "-c", "-C"], ["exec", "-c", "-C"], None),
        (["serve", "--project", "d"], ["serve", "--project", "d"], None),
        (["--json"], ["--json"], None),
    ],
)
def test_what_may_stand_before_a_command(words: list[str], rest: list[str], folder: str | None) -> None:
    assert take_globals(words) == (rest, folder)


def test_a_command_in_another_folder(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = go_ent("-C", str(project), "config", "check")
    assert (found.returncode, b"no problems" in found.stdout) == (0, True)
    assert json.loads(go_ent("-C", str(project), "--json", "ps").stdout) == []
    missing = go_ent("--project", "/nowhere/at/all", "ps")
    assert (missing.returncode, b"/nowhere/at/all: No such file" in missing.stderr) == (12, True)


def test_no_colours(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "")
    assert b"\x1b" in go_ent("exec", "-c", "{'a': 1}").stdout
    assert b"\x1b" not in go_ent("exec", "-c", "{'a': 1}", "--no-color").stdout


def test_settings_one_by_one(project: Path) -> None:
    path = project / ".go-ent" / "config.toml"
    path.write_text("# mine\n[budget.day]\nusd = 5 # a day\n")
    assert go_ent("config", "get", "budget.day.usd").stdout == b"5.0\n"
    assert go_ent("config", "set", "budget.day.usd", "7.5").returncode == 0
    assert go_ent("config", "set", "limits.cpu_s", "3").stdout == b"+[limits]\n+cpu_s = 3\n"
    assert path.read_text() == "# mine\n[budget.day]\nusd = 7.5 # a day\n\n[limits]\ncpu_s = 3\n"
    assert json.loads(go_ent("config", "get", "budget.day").stdout)["usd"] == 7.5
    before = path.read_text()
    for words, said in (
        (["limits.cpu_s", "never"], "limits.cpu_s"),
        (["limits.tiemout_s", "3"], "did you mean timeout_s?"),
        (["limits", "3"], "is a section"),
    ):
        wrong = go_ent("config", "set", *words)
        assert (wrong.returncode != 0, said in wrong.stderr.decode()) == (True, True), wrong.stderr
    assert path.read_text() == before
    assert b"there is no setting budget.dya" in go_ent("config", "get", "budget.dya").stderr


def test_an_editor_is_opened_and_what_it_wrote_is_checked(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = project / "editor"
    script.write_text("#!/bin/sh\necho '[nonsense]' >> \"$1\"\n")
    script.chmod(0o700)
    (project / ".go-ent" / "config.toml").write_text("")
    monkeypatch.setenv("VISUAL", str(script))
    done = go_ent("config", "edit")
    assert (done.returncode, b"nonsense" in done.stdout) == (12, True)


def test_variables_that_mean_nothing(project: Path) -> None:
    assert unknown_variables(environ={"GO_ENT_CACHE": "", "GO_ENT__A": "", "PATH": "", "GO_ENT_DATA": ""}) == []
    (line,) = unknown_variables(environ={"GO_ENT_CAHCE": ""})
    assert line.endswith("GO_ENT_CAHCE means nothing here; did you mean GO_ENT_CACHE?")
    assert b"GO_ENT_NONSENSE means nothing here" in go_ent("config", "check", env={"GO_ENT_NONSENSE": "1"}).stderr


@pytest.mark.more
def test_completion_as_people_type_it(project: Path) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert go_ent("completion", shell).stdout == go_ent("completion", "show", shell).stdout
    go_ent("exec", "-c", "1")
    found = go_ent("__complete", "resume", "").stdout.decode().splitlines()
    assert found[:3] == ["", "\x1fbegin", "last"]


@pytest.mark.more
def test_names_are_completed_without_importing_their_commands() -> None:
    """Every command whose first argument has names to complete is in the table of those that are completed at once."""
    found: dict[tuple[str, ...], object] = {}
    for typed, module, _ in COMMANDS:
        if not module:
            continue
        file, _, function = module.partition(":")
        place = import_module(f"go_ent.engine.cli.commands.{file}")
        command = getattr(place, f"{function or typed.rpartition(' ')[2]}_command")
        for name, kind in get_type_hints(command, include_extras=True).items():
            parameter = inspect.signature(command).parameters.get(name)
            if parameter is not None and parameter.kind in {parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL}:
                completers = [one.completer for one in getattr(kind, "__metadata__", ()) if isinstance(one, Parameter)]
                found |= {tuple(typed.split()): one for one in completers if one is not None}
                break
    assert found == {command: values for command, values in VALUES.items() if command in found}
    assert VALUES.keys() - found.keys() <= {("tool", "call")}  # another name of `tool run`


def test_names_of_servers_and_their_tools_are_completed(project: Path) -> None:
    (project / ".go-ent" / "config.toml").write_text(
        '[servers.shop]\ncommand = "x"\n[servers.Bad-one]\ncommand = "y"\n[grants]\nallow = ["shop.*", 1]\n'
    )
    (project / ".go-ent" / "composed-tools").mkdir(exist_ok=True)
    (project / ".go-ent" / "composed-tools" / "mine.ts").write_text("")
    folder = listings_folder(project)
    folder.mkdir(parents=True)
    for namespace, kept in {"shop": '{"tools": [{"upstream": "list-orders"}]}', "Bad-one": "{}"}.items():
        (folder / f"{namespace}.json").write_text(kept)
    assert completed(["server", "remove", ""]) == ["Bad-one", "shop"]
    assert completed(["tool", "run", "sh"]) == ["mine", "shop.list_orders"]
    assert completed(["grant", ""]) == ["Bad-one.*", "shop.*", "shop.list_orders"]
    assert completed(["revoke", ""]) == ["shop.*"]
    assert completed(["tool", "edit", ""]) == ["mine"]
    assert completed(["tool", "run", "--"]) is None
    for broken in ("[", "[1]", '{"tools": [1]}', '{"tools": [{"upstream": ""}]}'):
        (folder / "shop.json").write_text(broken)
        assert completed(["tool", "run", ""]) == ["mine"]
    (project / ".go-ent" / "config.toml").write_text("[servers")
    assert completed(["server", "remove", ""]) == []


@pytest.mark.more
def test_the_script_for_a_shell_is_kept_until_the_commands_change(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Making it imports every command."""
    monkeypatch.setenv("GO_ENT_CACHE", str(project / "cache"))
    script = go_ent("completion", "bash").stdout
    (kept,) = (project / "cache" / "completion").iterdir()
    assert (kept.read_bytes().strip(), kept.stat().st_mode & 0o777) == (script.strip(), 0o600)
    kept.write_text("# kept")
    assert go_ent("completion", "bash").stdout == b"# kept\n"
    kept.rename(kept.with_name("bash-" + "0" * 32))  # of other commands
    assert go_ent("completion", "bash").stdout == script
    assert [*(project / "cache" / "completion").iterdir()] == [kept]


def test_a_broken_server_is_told_and_is_an_exit_code(project: Path) -> None:
    (project / ".go-ent" / "config.toml").write_text('[servers.shop]\ncommand = "no-such-program-at-all"\n')
    done = go_ent("doctor")
    said = done.stdout.decode()
    assert (done.returncode, "there is no program no-such-program-at-all" in said) == (1, True), said
    assert said.splitlines()[-1] == "next: install it, or change [servers.shop]"


def test_a_groups_commands_are_called_commands() -> None:
    """Not options, among which the whole program's own stand."""
    said = go_ent("tool", "--help").stdout.decode()
    assert "\nCommands:\n  add " in said
    assert "Options:" not in said
