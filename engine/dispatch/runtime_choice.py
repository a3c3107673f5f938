"""Which runtime a task goes to: one rule.

1. What needs no model (a command, a composed tool, code) goes to `cli`.
2. Else to the runtime that the task names,
3. else to that of its role,
4. else to the one that the configuration prefers (`[engine] runtime`),
5. else to the first that is available of claude-code, open-code, cli, and those that other packages bring.

`cli` answers a task with a prompt only if `[engine] command` names a command for it.
"""

from __future__ import annotations

from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import BadTask, NoRuntime
from go_ent.engine.core.models import Task
from go_ent.engine.prompts.roles import Role
from go_ent.engine.runners.registry import Registry
from go_ent.sandbox.messages.advice import Advice


@dataclass(frozen=True, slots=True)
class Choice:
    runtime: str
    reason: str


async def choose_runtime(
    task: Task, role: Role | None, preferred: str | None, answers: str | None, registry: Registry
) -> Choice:
    """The runtime for a task, and why. *answers* is the command that answers prompts on `cli`."""
    if not task.needs_model:
        if task.runtime not in (None, "cli"):
            raise BadTask(f"{task.title} runs on cli, not on {task.runtime}: leave the runtime out")
        return Choice("cli", "it needs no model")
    for name, reason in (
        (task.runtime, "the task says so"),
        (role.runtime if role is not None else None, f"the role {role.name if role is not None else ''} says so"),
        (preferred, "the configuration prefers it"),
    ):
        if name is not None:
            registry.get(name)
            if name == "cli" and answers is None:
                raise NoRuntime(
                    "cli answers prompts only with a command: name one in [commands.NAME], and it in [engine] command"
                )
            return Choice(name, reason)
    reasons = []
    for name in registry.names:
        if name == "cli" and answers is None:
            reasons.append("cli: no [engine] command is configured")
            continue
        found = await registry.available(name)
        if found.ok:
            return Choice(name, "it is the first that is available")
        reasons.append(f"{name}: {found.reason}")
    raise NoRuntime(
        f"no runtime is available for a task with a prompt: {'; '.join(reasons)}", advice=Advice("diagnose")
    )
