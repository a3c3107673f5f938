"""What a project would get to start, to download or to say once it is trusted: for a person to see before."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from go_ent.composer.config import Config, read_config
from go_ent.composer.project.files import STATE
from go_ent.composer.project.layers import Layers
from go_ent.engine.core.config import EngineConfig, read_engine_config, read_engine_settings
from go_ent.engine.prompts import all_skills
from go_ent.engine.runners.base.agent_files import obeyed
from go_ent.sandbox import Limits


def wants(project: Path, *, look: bool = True) -> list[str]:
    """All of it, a line each. Of variables the names alone.

    Without *look* the files that `mcp_json` names stay closed: nothing but the project's own state is read.
    """
    layers = read_engine_settings(project)
    tools, engine = (
        read_config(project, layers=layers, trusted=False, look=look),
        read_engine_config(project, layers=layers),
    )
    return [
        *_withheld(tools.withheld, layers, look=look),
        *_reached(tools),
        *_started(engine),
        *_said(tools, engine, project),
    ]


def _withheld(paths: Collection[tuple[str, ...]], layers: Layers, *, look: bool) -> Iterator[str]:
    for path in paths:
        said = layers.table[path[0]]
        if path == ("image", "packages"):
            yield f"packages for the sandbox, downloaded by pip: {', '.join(said['packages'])}"
        elif path[0] == "limits":
            yield f"limit {path[1]}: {said[path[1]]} instead of {getattr(Limits(), path[1])}"
        elif not look:
            yield f"servers of {said if isinstance(said, str) else ', '.join(said)}"


def _reached(tools: Config) -> Iterator[str]:
    for name, server in tools.servers.items():
        what = server.url or " ".join([str(server.command), *server.args])
        yield f"server {name}: {what}{_named('sets', server.env)}{_named('headers', server.headers)}"
    for name, api in tools.apis.items():
        yield f"API {name}: {api.base_url or api.document}{_named('headers', api.headers)}"


def _started(engine: EngineConfig) -> Iterator[str]:
    for name, command in engine.commands.items():
        yield f"command {name}: {' '.join(command.argv)}{_named('sees', command.env)}{_named('sets', command.set)}"
    for name, runner in engine.runners.items():
        if runner.starts:
            argv = " ".join([*(runner.command or (name,)), *runner.args])
            yield f"runtime {name}: {argv}{_named('sees', runner.env)}{_named('sets', runner.set)}"
    for name, client in engine.serve.clients.items():
        further = [word for word, may in (("composes", client.compose), ("runs agents", client.engine)) if may]
        token = f"its token is in {f'${client.token_env}' if client.token_env else client.token_file}"
        yield f"client {name} over HTTP: {'; '.join([', '.join(client.allow) or 'no tools', *further, token])}"
    if engine.fleet.url_env is not None:
        yield f"fleet: executions, budget and tools are in the Postgres of ${engine.fleet.url_env}"
    yield from (f"served over HTTP as {host}" for host in engine.serve.hosts)
    yield from (f"pages of {origin} may call over HTTP" for origin in engine.serve.origins)


def _said(tools: Config, engine: EngineConfig, project: Path) -> Iterator[str]:
    if tools.grants.may_reach("engine"):
        yield "code in the sandbox may have agents work (engine.*)"
    if "summarize" in tools.allow:
        yield "code in the sandbox may have texts summarised (summarize)"
    if engine.engine.mode is not None:
        yield f"budgets are kept as over {engine.engine.mode} (engine.mode)"
    yield from (f"role {name} tells agents: {role.prompt}" for name, role in engine.roles.items() if role.prompt)
    if "summarizers" in engine.context.model_fields_set:
        yield from (f"summarizer {name}" for name in engine.context.summarizers if name != "deterministic")
    yield from (f"skill {skill.path.relative_to(project)}" for skill in all_skills(project) if skill.scope == "project")
    yield from (f"prompt {path.relative_to(project)}" for path in sorted((project / STATE / "prompts").glob("*.j2")))
    yield from (f"agents obey {name}" for name in obeyed(project))


def _named(word: str, names: Collection[str]) -> str:
    return f" ({word} {', '.join(names)})" if names else ""
