"""`go-ent run`: a task, or a plan of many."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from pydantic import ValidationError

from go_ent.composer.project.files import find_project
from go_ent.engine.cli import UsageError, app
from go_ent.engine.cli.commands.shared import HereFlag, JsonFlag, LabelOption, Telling, YesFlag, finish, with_engine
from go_ent.engine.cli.inputs.reading import read_inputs
from go_ent.engine.cli.terminal.output import is_utf8, say, show, show_json
from go_ent.engine.cli.terminal.progress import QuietFlag, image_ready
from go_ent.engine.cli.terminal.usage_errors import unknown_option
from go_ent.engine.core.errors import BadTask
from go_ent.engine.core.explain import explain
from go_ent.engine.core.models import Task
from go_ent.engine.prompts import Prompt
from go_ent.engine.storages import fleet_of
from go_ent.engine.strategies import Plan, read_plan

if TYPE_CHECKING:
    from go_ent.engine.core.models import RunResult
    from go_ent.engine.engine import Engine
    from go_ent.engine.strategies.work import Work

TaskText = Annotated[
    str | None, Parameter(help="The task in words, or - to read it from stdin.", allow_leading_hyphen=True)
]
Role = Annotated[
    str | None, Parameter(help="architect, developer, reviewer, tester, writer, or a role from the configuration.")
]
Kind = Annotated[str | None, Parameter(help="feature, bugfix, refactor, architecture, test, docs, review or other.")]
Runtime = Annotated[str | None, Parameter(help="claude-code, open-code or cli; by default the first available one.")]
ModelName = Annotated[str | None, Parameter(help="The model's name for the runtime.")]
Skill = Annotated[list[str] | None, Parameter(help="A skill from .go-ent/skills; repeatable.")]
FileName = Annotated[list[str] | None, Parameter(help="A file, folder or pattern to put into the prompt; repeatable.")]
Usd = Annotated[float | None, Parameter(help="Limit on the cost, in dollars.")]
TokenCount = Annotated[int | None, Parameter(help="Limit on the cost, in tokens.")]
Timeout = Annotated[float | None, Parameter(help="Wall time in seconds.")]
Access = Annotated[str | None, Parameter(help="The agent's access to files: none, read or edit (the default).")]


def run_command(
    task: TaskText = None,
    /,
    *,
    plan: Annotated[Path | None, Parameter(help="A TOML or JSON file with a plan of tasks.")] = None,
    from_: Annotated[
        str | None,
        Parameter(name="--from", help="Run the plan from this task on; what comes before is taken from its last run."),
    ] = None,
    only: Annotated[
        list[str] | None,
        Parameter(help="Run only this task of the plan; what it needs is taken from the last run. Repeatable."),
    ] = None,
    concurrency: Annotated[int | None, Parameter(help="How many tasks of a plan may run at once.")] = None,
    strategy: Annotated[str | None, Parameter(help="auto, single, multi or parallel.")] = None,
    role: Role = None,
    type: Kind = None,
    skill: Skill = None,
    model: ModelName = None,
    runtime: Runtime = None,
    file: FileName = None,
    context: Annotated[str | None, Parameter(help="Background for the agent.")] = None,
    pin: Annotated[list[str] | None, Parameter(help="A text kept word for word in every prompt; repeatable.")] = None,
    threshold: Annotated[
        float | None, Parameter(help="Summarise once this share of the model's window is full, 0.1 to 0.95.")
    ] = None,
    access: Access = None,
    command: Annotated[str | None, Parameter(help="A command from the configuration to run the task.")] = None,
    tool: Annotated[str | None, Parameter(help="A composed tool to run instead of a task.")] = None,
    input: Annotated[
        str, Parameter(help="The tool's inputs: a JSON object, or @FILE.", allow_leading_hyphen=True)
    ] = "{}",
    budget_usd: Usd = None,
    budget_tokens: TokenCount = None,
    timeout: Timeout = None,
    dry_run: Annotated[
        bool, Parameter(negative="", help="Print the prompts that would be sent, and run nothing.")
    ] = False,
    here: HereFlag = False,
    label: LabelOption = None,
    yes: YesFlag = False,
    quiet: QuietFlag = False,
    json_: JsonFlag = False,
) -> int:
    """Run a task on an agent, a command or in the sandbox; or a plan of tasks.

    The id of the execution is on stderr at once, what happens follows there; the result is on stdout.

    Example: go-ent run --plan plan.toml
    """
    given: dict[str, Any] = {
        "role": role,
        "type": type,
        "model": model,
        "runtime": runtime,
        "context": context,
        "access": access,
    }
    given |= {
        "skills": skill,
        "files": file,
        "timeout_s": timeout,
        "command": command,
        "tool": tool,
        "strategy": strategy,
    }
    given |= {"budget": budget_of(budget_usd, budget_tokens), "pinned": pin, "threshold": threshold}
    if plan is not None:
        refused = [
            name
            for name, value in given.items()
            if value is not None and name not in ("budget", "strategy", "threshold")
        ]
        if task is not None or refused:
            raise UsageError(
                f"with --plan, {'a task' if task is not None else refused[0]} belongs into the plan's file"
            )
        if strategy not in (None, "auto", "parallel"):
            raise UsageError("a plan is a graph: its strategy is parallel")
        found = read_plan(plan)
        if given["budget"] is not None:
            found = found.model_copy(update={"budget": make_task(description="budget", budget=given["budget"]).budget})
        if threshold is not None:
            found = found.model_copy(
                update={"threshold": make_task(description="threshold", threshold=threshold).threshold}
            )
        work: Work = found
    else:
        if concurrency is not None:
            raise UsageError("--concurrency is for a --plan")
        work = make_task(description=read_task(task, tool), inputs=read_inputs(input), **given)
    if concurrency is not None and concurrency < 1:
        raise UsageError("--concurrency must be at least 1")

    if (from_ is not None or only) and (not isinstance(work, Plan) or (from_ is not None and only)):
        raise UsageError("--from and --only are for a --plan, and one of them at a time")

    plan_file = None if plan is None else os.path.abspath(plan)

    async def go(engine: Engine) -> int:
        chosen: Work = work
        finished: dict[str, RunResult] = {}
        if isinstance(work, Plan) and (from_ is not None or only):
            from go_ent.engine.cli.plans.reuse import part_of

            chosen, finished = await part_of(engine, work, first=from_, only=only or ())
        if dry_run:
            return await show_prompts(engine, chosen, json_=json_)
        await refuse_problems(engine, chosen)
        telling = Telling(quiet=json_, silent=quiet)
        result = await engine.execute(
            chosen,
            concurrency=concurrency,
            on_event=telling,
            plan_file=plan_file,
            finished=finished,
            here=here,
            label=label,
        )
        return finish(engine, result, telling, json_=json_, quiet=quiet)

    if needs_image(work) and not dry_run and (here or fleet_of(find_project(".")).url_env is None):
        image_ready(find_project("."), quiet=quiet or json_, kinds=("plain",))
    return with_engine(go, yes=yes, progress="running", quiet=quiet or json_ or dry_run)


async def refuse_problems(engine: Engine, work: Work) -> None:
    """Refuse work that names what is not there: nothing has run then, and there is nothing to resume."""
    from go_ent.engine.work_checks import work_problems

    for task in (work,) if isinstance(work, Task) else work.task if isinstance(work, Plan) else work:
        engine.check(task)
    problems = await work_problems(engine, work)
    if problems and isinstance(work, Plan):
        raise BadTask("; ".join(f"task {task}: {why}" for task, why in problems[:10]))
    if problems:
        raise BadTask(problems[0][1])


def needs_image(work: Work) -> bool:
    """Whether any of it runs in the sandbox."""
    tasks = (work,) if isinstance(work, Task) else work.task if isinstance(work, Plan) else work
    return any(task.tool or task.code for task in tasks)


def read_task(task: str | None, tool: str | None = None) -> str:
    if task == "-":
        return sys.stdin.read(4_000_001)
    if task is not None and task.startswith("-") and len(task) > 1:
        said = unknown_option(app, sys.argv[1:]) or f"unknown option: {task.split()[0]}."
        raise UsageError(f"{said} A task that begins with a dash goes on stdin: go-ent run -")
    if task is None and tool is None:
        raise UsageError("run needs a task, a --tool or a --plan")
    return task or ""


def budget_of(usd: float | None, tokens: int | None) -> dict[str, Any] | None:
    return None if usd is None and tokens is None else {"usd": usd, "tokens": tokens}


def make_task(**given: Any) -> Task:
    """A task from options; what is not given is left to its default."""
    try:
        return Task(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise UsageError(explain(error)) from None


async def show_prompts(engine: Engine, work: Work, *, json_: bool) -> int:
    steps = await engine.dry_run(work)
    if json_:
        rows: list[dict[str, Any]] = []
        for step, shown in steps:
            found = shown if isinstance(shown, Prompt) else None
            said = {"runs": shown} if found is None else {"prompt": found.text(), "notes": list(found.notes)}
            rows.append({"step": step, **said})
        show_json(rows)
        return 0
    for step, shown in steps:
        rule = "────" if is_utf8(sys.stdout) else "----"
        say(f"{rule} {step} {rule}")
        show(shown.text().rstrip() if isinstance(shown, Prompt) else f"(no prompt: runs {shown})")
        for note in shown.notes if isinstance(shown, Prompt) else ():
            say(f"note: {note}", err=True)
    return 0
