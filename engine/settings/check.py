"""All that is wrong with a project, before anything of it is started."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from go_ent.composer import Composer, ConfigError
from go_ent.composer.composed.store import Store, composed_stores
from go_ent.composer.composed.tool_store import Found
from go_ent.composer.config import Config, read_partly
from go_ent.composer.known_tools import unmatched_grants
from go_ent.composer.project.items import apart
from go_ent.composer.project.layers import Layers, shown
from go_ent.composer.project.problems import Setting, problem
from go_ent.composer.project.trust import is_trusted
from go_ent.composer.sources.secrets import is_spelled_out
from go_ent.composer.sources.server_config import REFERENCE, ServerConfig, SourceOptions
from go_ent.dataclass import dataclass
from go_ent.engine.budget.calendar import zone
from go_ent.engine.budget.commands import spender
from go_ent.engine.core.config import EngineConfig, read_engine_config, read_engine_settings
from go_ent.engine.core.errors import BadTask
from go_ent.engine.prompts import all_skills
from go_ent.engine.prompts.roles import find_role, roles
from go_ent.engine.prompts.templating import Templates
from go_ent.sandbox import SandboxError
from go_ent.sandbox.children.programs import find_program
from go_ent.sandbox.messages.advice import Advice, joined


@dataclass(slots=True)
class Checked:
    """What is wrong (`problems`), what may be meant so (`notes`), and how much was looked at (`counts`)."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.problems


async def check_project(project: Path) -> Checked:
    """Look at everything that a project has written down. Nothing that it names is started; its tools are looked at
    in the sandbox.
    """
    checked = Checked()
    tools, _ = await asyncio.to_thread(_settings, project, checked)
    wrong: dict[str, str] = {}
    with apart("skills and templates", wrong):
        await asyncio.to_thread(_texts, project, checked)
    with apart("composed tools", wrong):
        await _tools(project, tools, checked)
    with apart("grants", wrong):
        checked.notes += [f"grants: {one}" for one in await asyncio.to_thread(unmatched_grants, project, tools)]
    checked.problems += [f"{name}: they can't be looked at: {why}" for name, why in wrong.items()]
    checked.problems = list(dict.fromkeys(checked.problems))
    return checked


def _settings(project: Path, checked: Checked) -> tuple[Config, EngineConfig | None]:
    tools, engine = Config(), None
    try:
        layers = read_engine_settings(project)
    except ConfigError as error:
        checked.problems += error.problems
        return tools, engine
    checked.counts["sections"] = len(layers.table)
    checked.counts["variables"] = len(layers.variables)
    try:
        tools, wrong = read_partly(project, layers, look=True)
        checked.problems += wrong
        checked.problems += tools.unusable.values()
        checked.problems += _servers(tools, layers, project)
        checked.problems += _apis(tools, layers)
        trust = Advice("trust", str(project))
        checked.notes += [joined(line, trust) for line in tools.withheld.values()]
        checked.notes += _others_secrets(tools, layers)
    except ConfigError as error:
        checked.problems += error.problems
    try:
        engine = read_engine_config(project, layers=layers)
        checked.problems += _programs(engine, layers, project)
        checked.problems += _names(engine, layers, project)
        checked.notes += [*_variables(engine, layers), *_caps(engine, layers)]
    except ConfigError as error:
        checked.problems += error.problems
    starts = (
        tools.servers
        or tools.apis
        or (engine and (engine.commands or any(runner.starts for runner in engine.runners.values())))
    )
    if starts and not is_trusted(project):
        checked.notes.append(
            "nobody has trusted this folder: nothing that it names is started before you run go-ent trust"
        )
    return tools, engine


def _servers(config: Config, layers: Layers, project: Path) -> Iterator[str]:
    for name, server in config.servers.items():
        path = _path(layers, "servers", name)
        yield from _references(path, server, layers)
        if server.command and not REFERENCE.search(server.command):
            yield from _program(
                (*path, "command"), server.command, project / (server.cwd or "."), _path_of(server), layers
            )


def _others_secrets(config: Config, layers: Layers) -> Iterator[str]:
    """Secrets in the mcpServers files of other programs, which may hold them: the user may want to know."""
    for name, server in config.servers.items():
        if not layers.has(_path(layers, "servers", name)):
            for table, values in (("env", server.env), ("headers", server.headers)):
                for key, value in values.items():
                    if is_spelled_out(key, value):
                        said = "a file of mcp_json holds the secret itself; a reference like ${NAME} would do"
                        yield problem(("servers", name, table, key), said, lambda _: "")


def _path_of(server: ServerConfig) -> str | None:
    path = server.env.get("PATH")
    return None if path is None or REFERENCE.search(path) else path


def _apis(config: Config, layers: Layers) -> Iterator[str]:
    for name, api in config.apis.items():
        path = _path(layers, "openapi", name)
        yield from _references(path, api, layers)
        from go_ent.composer.sources.openapi_document import load_document

        try:
            load_document(api.document)
        except ConfigError as error:
            yield problem((*path, "document"), str(error), layers.where)


def _path(layers: Layers, section: str, namespace: str) -> tuple[str, ...]:
    """How the file spells a namespace; one of an mcpServers file is not in it."""
    table = layers.table.get(section, {})
    return (
        section,
        next(
            (name for name in table if "".join(c if c.isalnum() else "_" for c in name.lower()) == namespace), namespace
        ),
    )


def _references(path: Setting, source: SourceOptions, layers: Layers) -> Iterator[str]:
    """Variables that a source's settings stand for, and that are not there: each at the setting that names it."""
    for setting, text in _texts_of((), source.model_dump(mode="json", exclude_none=True)):
        for name, default in _named(text):
            if not default and name not in os.environ:
                yield problem((*path, *setting), f"the environment variable {name} is not set", layers.where)


def _texts_of(path: tuple[str | int, ...], value: object) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _texts_of((*path, name), one)
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from _texts_of((*path, at), one)


def _named(text: str) -> Iterator[tuple[str, bool]]:
    for match in REFERENCE.finditer(text):
        yield match[1], match[2] is not None


def _programs(config: EngineConfig, layers: Layers, project: Path) -> Iterator[str]:
    for name, command in config.commands.items():
        yield from _program(("commands", name, "argv"), command.argv[0], project, command.set.get("PATH"), layers)
    for name, runner in config.runners.items():
        if runner.command:
            yield from _program(
                ("runners", name, "command"), runner.command[0], project, runner.set.get("PATH"), layers
            )


def _program(path: Setting, program: str, folder: Path, search: str | None, layers: Layers) -> Iterator[str]:
    if find_program(program, os.environ.get("PATH") if search is None else search, folder) is None:
        said = "is no program here" if "/" in program else "is not found on PATH"
        yield problem(path, f"{program[:200]!r} {said}: install it, or correct the name", layers.where)


def _names(config: EngineConfig, layers: Layers, project: Path) -> Iterator[str]:
    """What settings name must be there: roles, skills, runtimes, a time zone."""
    from go_ent.engine.runners.base.surroundings import Surroundings
    from go_ent.engine.runners.registry import Registry

    known = roles(config)
    for at, name in enumerate(config.engine.chain):
        try:
            find_role(name, known)
        except BadTask as error:
            yield problem(("engine", "chain", at), str(error), layers.where)
    usable = {skill.name: skill for skill in all_skills(project)}
    for role, one in config.roles.items():
        for at, name in enumerate(one.skills):
            if name not in usable:
                said = f"there is no skill {name!r}; the skills are {', '.join(usable) or 'none'}"
                yield problem(("roles", role, "skills", at), said, layers.where)
    runtimes = Registry(Surroundings(project, config, _no_composer)).names
    wanted = [
        (("engine", "runtime"), config.engine.runtime),
        *((("roles", role, "runtime"), one.runtime) for role, one in config.roles.items()),
    ]
    for path, runtime in [*wanted, *((("runners", name), name) for name in config.runners)]:
        if runtime is not None and runtime not in runtimes:
            yield problem(path, f"there is no runtime {runtime!r}; there are {', '.join(runtimes)}", layers.where)
    try:
        zone(config.budget.timezone)
    except ConfigError as error:
        yield problem(("budget", "timezone"), str(error).removeprefix("budget.timezone: "), layers.where)


def _no_composer() -> Composer:
    raise AssertionError("nothing is run here")


def _variables(config: EngineConfig, layers: Layers) -> Iterator[str]:
    """What programs may see, and is not there: they may well do without."""
    for section, found in (("commands", config.commands), ("runners", config.runners)):
        for name, one in found.items():
            for variable in one.env:
                if not variable.endswith("*") and variable not in os.environ:
                    yield problem(
                        (section, name, "env"), f"the environment variable {variable} is not set", layers.where
                    )
    for name, client in config.serve.clients.items():
        if client.token_env is not None and not os.environ.get(client.token_env):
            yield problem(
                ("serve", "clients", name, "token_env"),
                f"the environment variable {client.token_env} is not set",
                layers.where,
            )
    for setting in ("url_env", "session_url_env", "key_env"):
        variable = getattr(config.fleet, setting)
        if variable is not None and not os.environ.get(variable):
            yield problem(("fleet", setting), f"the environment variable {variable} is not set", layers.where)


def _caps(config: EngineConfig, layers: Layers) -> Iterator[str]:
    """Commands that the limits in dollars do not hold, unless their task declares what they cost."""
    budget = config.budget
    clients = (client.budget for client in config.serve.clients.values())
    if not any(limit and limit.usd for limit in (budget.task, budget.execution, budget.day, budget.month, *clients)):
        return
    for name in config.commands:
        found = spender(config, name)
        if found is not None and found.most_usd is None and not found.allowed:
            yield problem(("commands", name), f"[budget] limits dollars, and {found.problem}", layers.where)


def _texts(project: Path, checked: Checked) -> None:
    """Skills and templates."""
    try:
        skills = all_skills(project)
    except BadTask as error:
        checked.problems.append(str(error))
        skills = []
    checked.counts["skills"] = len(skills)
    checked.problems += [
        f"{shown(skill.path)}: the skill {skill.name} can't be used: {skill.problem}"
        for skill in skills
        if skill.problem
    ]
    templates = Templates(project, trusted=True)
    checked.problems += templates.check()
    checked.notes += templates.notes()


def _scanned(store: Store, wrong: dict[str, str]) -> Mapping[str, Found]:
    """A store's files; of one that can't be looked at, none, and why."""
    with apart(str(store.folder), wrong):
        return store.scan()
    return {}


async def _tools(project: Path, config: Config, checked: Checked) -> None:
    """Composed tools that are none: the project's, and the user's own."""
    stores, wrong = composed_stores(project), dict[str, str]()
    there = [_scanned(store, wrong) for store in stores]
    checked.problems += [f"{folder}: {why}" for folder, why in wrong.items()]
    for store in stores:
        checked.notes += [
            f"{shown(store.folder / name)}: it is no composed tool: a tool can't be called that"
            for name in store.strangers()
        ]
        with apart(str(store.folder), wrong):
            checked.problems += store.ignored()
    if not any(there):
        checked.counts["composed tools"] = 0
        return
    try:
        composer = await asyncio.to_thread(Composer, project, config=Config(limits=config.limits), workers=1)
        async with composer:
            await composer.composed.load()
            checked.counts["composed tools"] = len(composer.composed.found)
            for name, changed in (await composer.outdated()).items():
                said = f"{name} requires {', '.join(changed)}, which has changed since: go-ent tool test {name}"
                checked.notes.append(said)
            for name, broken in sorted(composer.composed.broken.items()):
                store = next(store for store in stores if store.scope == broken.scope)
                last = (
                    f"; version {broken.last_version} was good: go-ent tool rollback {name} {broken.last_version}"
                    if broken.last_version
                    else ""
                )
                checked.problems.append(f"{shown(store.folder / f'{name}.py')}: {broken.reason}{last}")
    except SandboxError as error:
        if not set(str(error).splitlines()) <= set(
            checked.problems
        ):  # else they are the settings' own, which were told
            checked.problems.append(f"composed tools can't be looked at: {error}")
