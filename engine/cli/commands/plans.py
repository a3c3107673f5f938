"""`go-ent plan check` and `graph`: a plan's file, before anything of it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from go_ent.engine.cli import SETUP_ERROR, UsageError
from go_ent.engine.cli.commands.shared import JsonFlag, with_engine
from go_ent.engine.cli.plans.graph import Node, draw_tree, mermaid, svg
from go_ent.engine.cli.terminal.output import say, show, show_json
from go_ent.engine.strategies import read_plan

if TYPE_CHECKING:
    from go_ent.engine.engine import Engine

PlanFile = Annotated[Path, Parameter(help="A TOML or JSON file with a plan of tasks.")]


def check_command(plan: PlanFile, /, *, json_: JsonFlag = False) -> int:
    """Check a plan as a whole: its fields, references and circles, and the tools, commands and programs it names.

    Nothing is started. The exit code is 12 if there is a problem.

    Example: go-ent plan check plan.toml
    """
    found = read_plan(plan)

    async def work(engine: Engine) -> int:
        from go_ent.engine.work_checks import work_problems

        problems = await work_problems(engine, found)
        if json_:
            show_json({"ok": not problems, "problems": [{"task": task, "problem": why} for task, why in problems]})
        else:
            for task, why in problems:
                say(f"{plan}: task {task}: {why}")
            many = len(problems)
            edges = sum(len(needs) for needs in found.needs)
            good = f"no problems: {_count(len(found.task), 'task')}, {_count(edges, 'dependency')}"
            say(good if not many else _count(many, "problem"), err=bool(many))
        return SETUP_ERROR if problems else 0

    return with_engine(work, progress="checking", quiet=json_)


def graph_command(
    plan: PlanFile,
    /,
    *,
    mermaid_: Annotated[bool, Parameter(name="--mermaid", negative="", help="Print Mermaid text.")] = False,
    svg_: Annotated[bool, Parameter(name="--svg", negative="", help="Print an SVG picture.")] = False,
    json_: JsonFlag = False,
) -> int:
    """Draw which task waits for which.

    Example: go-ent plan graph plan.toml --svg > plan.svg
    """
    if mermaid_ + svg_ + json_ > 1:
        raise UsageError("--mermaid, --svg and --json are three ways to print it: choose one")
    found = read_plan(plan)
    nodes = [Node(task.id, task.title, needs) for task, needs in zip(found.task, found.needs, strict=True)]
    if json_:
        show_json([{"id": node.id, "needs": [nodes[need].id for need in node.needs]} for node in nodes])
    elif mermaid_ or svg_:
        show(mermaid(nodes) if mermaid_ else svg(nodes))
    else:
        draw_tree(nodes)
    return 0


def _count(number: int, what: str) -> str:
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number} {what if number == 1 else many}"
