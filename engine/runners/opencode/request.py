"""What a request becomes for opencode: the way it is run, its prompt, its flags and the configuration it gets. Pure
functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic_core import from_json, to_json

from go_ent.engine.core.config import RunnerConfig
from go_ent.engine.core.models import Access, RunRequest
from go_ent.engine.processes.environment import LEAST_SECRET, NOTHING, secrets_of
from go_ent.engine.runners.base.agent import RunRefused
from go_ent.sandbox.children.python import python_command

CONTENT = "OPENCODE_CONFIG_CONTENT"
OWN = "OPENCODE_"
OFFLINE = "npm_config_offline"
# What the usual providers read. Others are named in `[runners.open-code] env`.
PROVIDERS = (
    "ANTHROPIC OPENAI OPENROUTER GEMINI GOOGLE GOOGLE_GENERATIVE_AI GROQ MISTRAL DEEPSEEK XAI AZURE CEREBRAS TOGETHER"
)
KEYS = tuple(f"{provider}_API_KEY" for provider in PROVIDERS.split())
PASSES = (f"{OWN}*", *KEYS, OFFLINE, OFFLINE.upper())
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CRED|AUTH|HEADER", re.IGNORECASE)
TOOLS = "go-ent"  # the name of this project's MCP server
TOOLS_TIMEOUT_MS = 300_000
SESSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,199}")
VERSION = re.compile(r"\bv?([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})")

# Generations of opencode, by the first version of each.
SECOND = (0, 1, 0)  # has `run`, but no JSON: can't be used
THIRD = (1, 0, 0)  # has `run --format json`
FOURTH = (1, 1, 1)  # has permissions for every tool, so that an agent can be kept from editing
HOOKED = (1, 3, 0)  # lets a plugin say what a shell finds in its environment
UPDATE = "update it to 1.1.1 or later"

# The last rule that fits holds. What is not named is denied, tools of other MCP servers too.
ENV_FILES = {"*": "allow", "*.env": "deny", "*.env.*": "deny", "*.env.example": "allow"}
LOOKING = {"glob": "allow", "grep": "allow", "list": "allow", "todowrite": "allow"}
PERMISSIONS: dict[Access, Mapping[str, Any]] = {
    "read": {"*": "deny", "read": ENV_FILES, **LOOKING, f"{TOOLS}_*": "allow"},
    "none": {"*": "deny"},
}

Numbers: TypeAlias = tuple[int, int, int]
Way = Literal["old", "run", "serve"]
Json: TypeAlias = dict[str, Any]


def version_of(said: str) -> Numbers | None:
    """The version in what `--version` says, or None."""
    found = VERSION.search(said)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def way_for(version: Numbers | None, access: Access, *, tools: bool = False, own_flags: bool = False) -> Way:
    """How a request is run, or `Refused`. A version that can't be read is taken for a current one.

    | opencode      | `edit`                   | `read`                                    | `none`  |
    |---------------|--------------------------|-------------------------------------------|---------|
    | 0.0.x         | `old`: -p PROMPT -f json | refused: it permits itself all            | refused |
    | 0.1 to 0.x    | refused: answers no JSON | refused                                   | refused |
    | 1.0.0 - 1.1.0 | `serve`                  | refused: it has rules for some tools only | refused |
    | from 1.1.1    | `serve`                  | `serve` if tools are attached, else `run` | `run`   |

    An agent that may edit may also start shell commands, in sessions of their own: only the server can stop them
    gently. Attached tools need the server too: `run` does not tell that an MCP server is dead. Flags of the user's own
    are flags of
    `run`, and make it the way. A server that can't be had is replaced by `run`; what that leaves behind is reaped.
    """
    if version is not None and SECOND <= version < THIRD:
        raise RunRefused("not_found", f"this opencode has no JSON output for programs: {UPDATE}")
    if version is not None and version < FOURTH and access != "edit":
        raise RunRefused(
            "not_found", f"this opencode can't be kept from editing, and the task has the access {access}: {UPDATE}"
        )
    if version is not None and version < SECOND:
        return "old"
    if own_flags or access == "none":
        return "run"
    return "serve" if access == "edit" or tools else "run"


def check(request: RunRequest) -> None:
    """Refuses what must not reach a command line or a path, before anything is started."""
    if not request.prompt.strip():
        raise RunRefused("task", "there is no prompt", replan=True)
    if request.session_id is not None and SESSION.fullmatch(request.session_id) is None:
        raise RunRefused("task", "that is no session id of opencode: letters, digits, _ and - only", replan=True)
    if request.model is not None and (request.model.startswith("-") or not request.model.isprintable()):
        raise RunRefused("task", "the name of a model can't begin with - or hold what can't be printed", replan=True)


def model_for(wanted: str | None, configured: str | None, way: Way) -> tuple[str | None, tuple[str, ...]]:
    """The model to ask for, and a word about one that can't be: opencode names models provider/model."""
    first = wanted or configured
    if first is None:
        return None, ()
    if way == "old":
        return None, (f"this opencode takes no model: its own default was used, not {first}",)
    usable = [name for name in (wanted, configured) if name and "/" in name.strip("/")]
    if usable[:1] == [first]:
        return first, ()
    instead = usable[0] if usable else None
    return instead, (
        f"opencode names models provider/model, and {first} has no provider: {instead or 'its own default'} was used",
    )


def agent_for(access: Access, mark: str) -> str | None:
    """The agent whose rules hold the access. *mark* makes the name nobody else's: rules of agents of one name are
    mixed.
    """
    return f"{TOOLS}-{access}-{mark}" if access in PERMISSIONS else None


def flags(request: RunRequest, model: str | None, mark: str, own: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments of `opencode run`, with those of the user's *own* last."""
    agent = agent_for(request.access, mark)
    if agent and any(flag.partition("=")[0] == "--agent" for flag in own):
        raise RunRefused(
            "task",
            f"args of the runner open-code name an agent, and the access {request.access} needs another: take "
            "--agent out",
        )
    given = ["-s", request.session_id] if request.session_id else ["--title", title(request)]
    given += ["-m", model] if model else []
    given += ["--agent", agent] if agent else []
    return ("run", "--format", "json", *given, *own)


def message(request: RunRequest, model: str | None, mark: str) -> Json:
    """The same for the server."""
    said: Json = {"parts": [{"type": "text", "text": task(request)}]}
    if request.system:
        said["system"] = request.system
    if model:
        provider, _, name = model.partition("/")
        said["model"] = {"providerID": provider, "modelID": name}
    if agent := agent_for(request.access, mark):
        said["agent"] = agent
    return said


def title(request: RunRequest) -> str:
    """A session with a title makes opencode ask no model for one."""
    return f"{TOOLS} {request.execution_id} {request.task_id}"[:100]


def task(request: RunRequest) -> str:
    if request.json_schema is None:
        return request.prompt
    wanted = "End your answer with a fenced block (```json) that holds one JSON value. It must fit this JSON Schema:"
    return f"{request.prompt}\n\n{wanted}\n{to_json(request.json_schema).decode()}"


def prompt(request: RunRequest) -> str:
    """All in one text, for ways that have no place of its own for the system's."""
    if not request.system:
        return task(request)
    return f"<instructions>\n{request.system}\n</instructions>\n\n<task>\n{task(request)}\n</task>"


def content(
    given: str,
    *,
    mark: str | None,
    tools_in: Path | None,
    cwd: str,
    plugin: str | None = None,
    hidden: Iterable[str] = (),
    settings: Mapping[str, str] = NOTHING,
) -> str | None:
    """The configuration for a child: what the user gave, with agents (if there is a *mark*), tools and a plugin; None
    if nothing is added.

    The tools find the variables that are *hidden* empty, and *settings*: without them an agent might be granted more
    than its user said.
    """
    if mark is None and tools_in is None and plugin is None:
        return None
    made = parsed(given)
    if mark is not None:
        ours = {
            agent_for(access, mark): {"mode": "primary", "permission": rules} for access, rules in PERMISSIONS.items()
        }
        made["agent"] = {**as_dict(made.get("agent")), **ours}
    if tools_in is not None:
        argv = python_command(["-c", "from go_ent.engine.cli import main; main()", "serve"])
        environment = dict.fromkeys(hidden, "") | dict(settings)
        server: Json = {
            "type": "local",
            "command": argv,
            "environment": environment,
            "enabled": True,
            "timeout": TOOLS_TIMEOUT_MS,
        }
        if Path(cwd) != tools_in:
            server["cwd"] = str(tools_in)
        made["mcp"] = {**as_dict(made.get("mcp")), TOOLS: server}
    if plugin is not None:
        theirs = made.get("plugin")
        made["plugin"] = [*(theirs if isinstance(theirs, list) else ()), plugin]
    return to_json(made).decode()


def secrets_in(host: Mapping[str, str], config: RunnerConfig, given: str) -> set[str]:
    """What must not be read in a result: what the configuration gives, keys, and of opencode's own settings those
    that are secret.
    """
    own = {
        name: value for name, value in (*host.items(), *config.set.items()) if name.startswith(OWN) and name != CONTENT
    }
    hidden = {value for name, value in own.items() if SECRET.search(name) or "@" in value}
    set_by_user = {name: value for name, value in config.set.items() if not name.startswith(OWN)}
    hidden |= secrets_of(host, allow=(*KEYS, *config.env), set=set_by_user) | keys_in(given)
    return {value for value in hidden if len(value) >= LEAST_SECRET}


def keys_in(given: str) -> set[str]:
    """The keys of providers in a configuration: all of it, if it can't be read."""
    try:
        providers = as_dict(parsed(given).get("provider")).values()
    except RunRefused:
        return {given}
    options = [as_dict(as_dict(provider).get("options")) for provider in providers]
    headers = [value for option in options for value in as_dict(option.get("headers")).values()]
    return {value for value in (*headers, *(option.get("apiKey") for option in options)) if isinstance(value, str)}


def parsed(given: str) -> Json:
    if not given.strip():
        return {}
    try:
        said = from_json(given, allow_inf_nan=False)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise RunRefused("task", f"{CONTENT} is not a JSON object, and something has to be added to it")
    return said


def as_dict(value: object) -> Json:
    return value if isinstance(value, dict) else {}
