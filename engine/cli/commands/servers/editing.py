"""`go-ent server add`, `server remove`, `grant` and `revoke`: what they write to the project's configuration."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from go_ent.composer.catalogue.grants import check_pattern
from go_ent.composer.config import read_config, read_settings
from go_ent.composer.known_tools import unmatched_grants
from go_ent.composer.project.files import find_project
from go_ent.composer.project.trust import is_trusted, set_trust
from go_ent.engine.cli import SETUP_ERROR, UsageError
from go_ent.engine.cli.commands.servers.asking import say_answer
from go_ent.engine.cli.commands.shared import JsonFlag
from go_ent.engine.cli.terminal.completion_values import ServerName, grant_patterns, granted_patterns
from go_ent.engine.cli.terminal.output import say, show_json
from go_ent.engine.cli.terminal.progress import ProgressLine, QuietFlag
from go_ent.engine.settings import grants
from go_ent.engine.settings.edit import header, remove_entry, set_entry, spelled
from go_ent.engine.setup.servers import Answer, Servers
from go_ent.engine.setup.trust_list import wants

DOCUMENTS = (".json", ".yaml", ".yml")
Several = list[str] | None


def add_command(
    name: Annotated[str, Parameter(help="What its tools are called by: NAME.tool.")],
    /,
    *target: Annotated[
        str,
        Parameter(help="-- and a command with its arguments, a URL, or the path of an OpenAPI document."),
    ],
    env: Annotated[
        Several,
        Parameter(help="A variable for the command: NAME passes yours on, NAME=VALUE sets it; repeatable."),
    ] = None,
    header_: Annotated[
        Several,
        Parameter(
            name="--header", help="A header for a URL or an API: NAME=VALUE, where ${env:X} is a secret; repeatable."
        ),
    ] = None,
    token_env: Annotated[str | None, Parameter(help="The variable that holds the bearer token for a URL.")] = None,
    auth: Annotated[
        Literal["oauth"] | None, Parameter(help="How to log in to a URL; then go-ent server login NAME.")
    ] = None,
    base_url: Annotated[str | None, Parameter(help="Where an API is; by default where its document says.")] = None,
    grant: Annotated[Several, Parameter(help="Grant this tool of it; '*' is all of them; repeatable.")] = None,
    ask: Annotated[bool, Parameter(negative="--no-ask", help="Ask it for its tools now.")] = True,
    quiet: QuietFlag = False,
    json_: JsonFlag = False,
) -> int:
    """Add a server or an API to this project's configuration, show what was written, and ask it for its tools.

    A folder that needs no trust for anything else is trusted for what you add; any other keeps waiting for `go-ent
    trust`.
    """
    project = find_project(".")
    section, entry, takes = _target(project, target)
    given = {"env": env, "headers": header_, "token_env": token_env, "auth": auth, "base_url": base_url}
    _add_options(entry, {option: value for option, value in given.items() if value}, takes, target[0])
    namespace = _check(project, section, name, entry)
    wanted = [] if is_trusted(project) else wants(project, look=False)
    lines = set_entry(project, section, name, entry)
    newly_trusted = not is_trusted(project) and not wanted and set_trust(project, True)
    if grant:
        patterns = [check_pattern(f"{namespace}.{one.removeprefix(f'{namespace}.')}") for one in grant]
        lines += grants.grant(project, patterns)
    if not json_:
        say(f"added {header(section, name)} to .go-ent/config.toml:")
        for line in lines:
            say(f"  {line}")
        if newly_trusted:
            say(f"{project} is trusted now: what you have just added is all that it wants to start", err=True)
    trusted = is_trusted(project)
    answer = _ask(project, namespace, quiet=quiet or json_) if trusted and ask and auth is None else None
    if json_:
        told = {} if answer is None else {"tools": len(answer.tools), "problem": answer.problem, "fix": answer.remedy}
        show_json({"name": namespace, "section": section, "written": lines, "trusted": trusted, **told})
    elif answer is not None:
        say_answer(Servers(project), answer)
    elif not trusted:
        say(
            f"it is not started: {project} wants more than this, and is not trusted: go-ent trust shows it all",
            err=True,
        )
    elif auth is not None:
        say(f"log in with: go-ent server login {namespace}", err=True)
    return SETUP_ERROR if answer is not None and answer.problem else 0


def _ask(project: Path, namespace: str, *, quiet: bool) -> Answer:
    with ProgressLine(f"asking {namespace}", quiet=quiet):
        (answer,) = asyncio.run(Servers(project).ask([namespace]))
    return answer


def _target(project: Path, target: tuple[str, ...]) -> tuple[str, dict[str, Any], set[str]]:
    """The section, what of it is given by what is added, and the options that go with that."""
    if not target:
        raise UsageError("what is to be added? -- COMMAND…, a URL, or the path of an OpenAPI document")
    first, *rest = target
    if not rest and first.startswith(("http://", "https://")):
        return "servers", {"url": first}, {"headers", "token_env", "auth"}
    if rest or not first.lower().endswith(DOCUMENTS):
        return "servers", {"command": first, **({"args": rest} if rest else {})}, {"env"}
    path = Path(os.path.abspath(first))
    if not path.is_file():
        raise UsageError(f"there is no file {first}")
    document = path.relative_to(project) if path.is_relative_to(project) else path
    return "openapi", {"document": str(document)}, {"headers", "base_url"}


def _add_options(entry: dict[str, Any], given: dict[str, Any], takes: set[str], what: str) -> None:
    for option, value in given.items():
        if option not in takes:
            raise UsageError(f"--{option.removesuffix('s').replace('_', '-')} does not go with {what}")
        if option == "env":
            entry["env"] = dict(_pair(text, f"${{env:{text}}}") for text in value)
        elif option == "headers":
            entry["headers"] = dict(_pair(text, None) for text in value)
        elif option == "token_env":
            entry["token"] = f"${{env:{value}}}"
        else:
            entry[option] = value


def _pair(text: str, alone: str | None) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals and alone is None:
        raise UsageError(f"{text[:80]!r}: write NAME=VALUE")
    return name.strip(), value if equals else str(alone)


def _check(project: Path, section: str, name: str, entry: dict[str, Any]) -> str:
    """Refuse what could not be read again, and a secret that the file would hold; what its tools are called by."""
    from go_ent.composer.sources.openapi import OpenApiConfig
    from go_ent.composer.sources.secrets import spelled_out
    from go_ent.composer.sources.server_config import ServerConfig, configs_from_table, namespace_of

    def nowhere(_: Any) -> str:
        return ""

    model = OpenApiConfig if section == "openapi" else ServerConfig
    configs_from_table({name: entry}, nowhere, section, model)
    for path, said in spelled_out({section: {name: entry}}, section):
        raise UsageError(f"{'.'.join(path)}: {said}")
    config, namespace = read_config(project), namespace_of(name)
    if namespace in {*config.servers, *config.apis}:
        raise UsageError(f"there is a server {namespace} already: go-ent server remove {namespace} first")
    return namespace


def remove_command(name: ServerName, /, *, json_: JsonFlag = False) -> int:
    """Remove a server or an API from this project's configuration, and what is kept of its tools."""
    project = find_project(".")
    servers = Servers(project, _config(project))
    section = "openapi" if servers.check(name) in servers.config.apis else "servers"
    written = spelled(project, section, name)
    if written is None:
        raise UsageError(f"{name} is not in .go-ent/config.toml: it comes from a file of mcp_json, or a variable")
    lines = remove_entry(project, section, written)
    servers.store.forget(name)
    left = [pattern for pattern in grants.written(project, "allow") if pattern.partition(".")[0] == name]
    if json_:
        show_json({"name": name, "removed": lines, "grants_left": left})
        return 0
    say(f"removed {header(section, written)} from .go-ent/config.toml:")
    for line in lines:
        say(f"  {line}")
    if left:
        say(f"grants that are left: {', '.join(left)}; go-ent revoke {' '.join(map(repr, left))}", err=True)
    return 0


def _config(project: Path) -> Any:
    """What can be read of the settings: an entry that is wrong can be removed too."""
    from go_ent.composer.config import read_partly

    return read_partly(project, read_settings(project))[0]


def grant_command(
    *patterns: Annotated[str, Parameter(help="A tool's full name, or 'namespace.*'.", completer=grant_patterns)],
    approve: Annotated[bool, Parameter(negative="", help="Each call of them needs approval.")] = False,
    json_: JsonFlag = False,
) -> int:
    """Let code call tools: adds to `[grants] allow`, and with --approve to `approve` too."""
    if not patterns:
        raise UsageError("grant needs the name of a tool, or 'namespace.*'")
    project = find_project(".")
    checked = [check_pattern(pattern) for pattern in patterns]
    lines = grants.grant(project, checked, approve=approve)
    notes = unmatched_grants(project, replace(read_config(project), allow=(), approve=()), checked)
    if json_:
        show_json({"granted": checked, "changed": lines, "notes": notes})
        return 0
    _say_changed(lines, "nothing was changed: it is granted already")
    for note in notes:
        say(f"note: {note}", err=True)
    _say_overridden(project)
    return 0


def revoke_command(
    *patterns: Annotated[str, Parameter(help="A pattern as it is granted.", completer=granted_patterns)],
    json_: JsonFlag = False,
) -> int:
    """Take patterns out of `[grants] allow`, and out of `approve`."""
    if not patterns:
        raise UsageError("revoke needs a pattern that is granted")
    project = find_project(".")
    for pattern in patterns:
        if (problem := grants.not_granted(project, pattern)) is not None:
            raise UsageError(problem)
    unasked = [one for one in patterns if "." not in one and one in grants.written(project, "approve")]
    lines = grants.revoke(project, patterns)
    notes = [f"{one}: composed tools need no grant; code may still call it, now without approval" for one in unasked]
    if json_:
        show_json({"revoked": list(patterns), "changed": lines, "notes": notes})
        return 0
    _say_changed(lines, "nothing was changed")
    for note in notes:
        say(f"note: {note}", err=True)
    _say_overridden(project)
    return 0


def _say_changed(lines: list[str], nothing: str) -> None:
    say(".go-ent/config.toml:" if lines else nothing)
    for line in lines:
        say(f"  {line}")


def _say_overridden(project: Path) -> None:
    variable = read_settings(project).variable(("grants", "allow"))
    if variable is not None:
        say(f"note: {variable} is set, and replaces what the file grants", err=True)
