"""`go-ent context` and `summarize`: how full an execution's context is, the chain of its summaries, and making one
now.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from pydantic import TypeAdapter, ValidationError

from go_ent.composer.project.files import find_project
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.commands.choosing import Id, OptionalId, meant, meant_or_last
from go_ent.engine.cli.commands.shared import JsonFlag, YesFlag, dollars, table, with_engine
from go_ent.engine.cli.terminal.output import plain, say, short, show_json
from go_ent.engine.context.chain import KIND, Chain
from go_ent.engine.context.models import Message, SummaryLink
from go_ent.engine.core.config import EngineConfig, read_engine_config
from go_ent.engine.core.explain import explain
from go_ent.engine.core.ids import short_id
from go_ent.engine.core.models import ModelName
from go_ent.engine.executions.state import ExecutionState, Fill

if TYPE_CHECKING:
    from go_ent.engine.engine import Engine

WIDTH = 40  # characters of the bar
MOST_LINKS = 200


def context_command(
    execution: OptionalId = None,
    /,
    *,
    expand: Annotated[int | None, Parameter(help="Show what the summary with this number replaced.")] = None,
    deep: Annotated[
        bool, Parameter(negative="", help="With --expand: expand earlier summaries too, down to the originals.")
    ] = False,
    json_: JsonFlag = False,
) -> int:
    """How full the context of an execution is, and its summaries: who made them, of what, at which cost."""
    if deep and expand is None:
        raise UsageError("--deep is for --expand N")
    project = find_project(".")
    store, execution_id = meant_or_last(execution)
    state = store.load(execution_id)
    chain = Chain(store.storage.attachments(state.id, KIND))
    if expand is not None:
        return _expand(chain, expand, deep=deep, json_=json_)
    links, problems = chain.links(), chain.check()
    threshold = threshold_of(state, read_engine_config(project))
    if json_:
        fill = None if state.fill is None else {**state.fill.model_dump(mode="json"), "threshold": threshold}
        show_json({"id": state.id, "fill": fill, "chain": [link.row() for link in links], "problems": problems})
        return 0
    say(f"{short(state.title)}\n  id        {short_id(state.id)}\n  status    {state.status}")
    say(f"  context   {'nothing was sent to a model yet' if state.fill is None else _filled(state.fill, threshold)}")
    _say_chain(links)
    for problem in problems:
        say(f"  damaged   {short(problem)}")
    if links:
        say(f"what a summary stands for: go-ent context {short_id(state.id)} --expand N")
    return 0


def bar(tokens: int, window: int, threshold: float, width: int = WIDTH) -> str:
    """`[####----|--]`: what is taken of a window, and from where on what came before is summarised."""
    full = min(width, max(0, tokens * width // window))
    mark = min(width - 1, int(width * threshold))
    return "[" + "".join("|" if at == mark else "#" if at < full else "-" for at in range(width)) + "]"


def _filled(fill: Fill, threshold: float) -> str:
    if fill.window <= 0:
        return "its record is damaged"
    share = f"{fill.tokens:,} of {fill.window:,} tokens ({fill.tokens * 100 // fill.window} %)"
    return f"{bar(fill.tokens, fill.window, threshold)} {share} in step {short(fill.step)}; | {threshold:.0%}"


def threshold_of(state: ExecutionState, config: EngineConfig) -> float:
    """From which part of the window on the last step's context is summarised: by its task, its role, or the project."""
    if state.fill is None:
        return config.context.threshold
    task: Any = {}
    plan = state.work.get("plan")
    tasks = plan.get("task") if isinstance(plan, dict) else state.work.get("tasks")
    if isinstance(tasks, list):
        ids = {one["id"]: one for one in tasks if isinstance(one, dict) and isinstance(one.get("id"), str)}
        task = ids.get(state.fill.step, tasks[0] if len(tasks) == 1 else {})
    for given in (task, plan):
        own = given.get("threshold") if isinstance(given, dict) else None
        if isinstance(own, float) and 0 < own < 1:
            return own
    done = state.results.get(state.fill.step)
    role = config.roles.get(done.role) if done is not None and done.role is not None else None
    return role.threshold if role is not None and role.threshold is not None else config.context.threshold


def _say_chain(links: list[SummaryLink]) -> None:
    if not links:
        say("  chain     nothing was summarised")
        return
    head = ["summary", "of", "by", "model", "tokens", "cost", "made"]
    table([_row(link) for link in links[-MOST_LINKS:]], head, right=("cost",), spare=("model", "cost"))
    if len(links) > MOST_LINKS:
        say(f"  … and {len(links) - MOST_LINKS} before: --json has them")
    for link in links[-MOST_LINKS:]:
        for why in link.tried:
            say(f"  {link.number}: failed before: {short(why)}")


def _row(link: SummaryLink) -> list[str]:
    tokens = f"{link.tokens_before:,} -> {link.tokens_after:,}"
    of = link.scope or f"{len(link.replaced)} messages"
    return [str(link.number), of, link.by, link.model or "-", tokens, dollars(link.cost_usd), _when(link.at)]


def _when(at: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (ValueError, OverflowError, OSError):
        return "?"


def _expand(chain: Chain, number: int, *, deep: bool, json_: bool) -> int:
    messages = chain.expand(number, deep=deep)
    if json_:
        show_json([message.model_dump(mode="json") for message in messages])
        return 0
    for at, message in enumerate(messages, 1):
        say(f"{at}. {_said_by(message)}, {message.tokens:,} tokens")
        for line in plain(message.text).split("\n"):  # indented: none of them is taken for a heading
            say(f"   {line}")
    return 0


def _said_by(message: Message) -> str:
    source = f" {short(message.source)}" if message.source else ""
    return f"{message.speaker}{source}{', pinned' if message.pinned else ''}"


def summarize_command(
    execution: Id,
    /,
    *,
    model: Annotated[str | None, Parameter(help="The model that writes the summary.")] = None,
    yes: YesFlag = False,
    json_: JsonFlag = False,
) -> int:
    """Summarise what an execution has come to, now. A step that comes later, and would be told all of it, is told
    the summary instead.
    """
    execution_id = meant(execution)
    try:
        TypeAdapter(ModelName | None).validate_python(model)
    except ValidationError as error:
        raise UsageError(f"--model: {explain(error)}") from None

    async def work(engine: Engine) -> int:
        state = await engine.status(execution_id)
        links = await engine.summarize(state.id, model=model)
        if json_:
            show_json({"id": state.id, "summaries": [link.row() for link in links]})
        elif not links:
            say(f"{short_id(state.id)} is short enough: nothing was summarised")
        for link in () if json_ else links:
            by = link.by if link.model is None else f"{link.by} ({short(link.model)})"
            cost = "" if link.cost_usd is None else f", {dollars(link.cost_usd)}"
            say(f"summary {link.number}: {link.tokens_before:,} tokens became {link.tokens_after:,}, by {by}{cost}")
            for why in link.tried:
                say(f"failed before: {short(why)}", err=True)
            say(f"what it stands for: go-ent context {short_id(state.id)} --expand {link.number}")
        return 0

    return with_engine(work, yes=yes, progress="summarising", quiet=json_)
