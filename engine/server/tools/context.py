"""Contexts over MCP: summarise an execution now."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp_types import InputRequiredResult
from pydantic import Field

from go_ent.engine.context.models import SummaryLink
from go_ent.engine.core.models import ModelName
from go_ent.engine.engine import Engine
from go_ent.engine.processes.trees import TAG
from go_ent.engine.server.calls.callers import current
from go_ent.engine.server.calls.long_calls import to_its_end
from go_ent.engine.server.calls.request import request_under_way
from go_ent.engine.server.calls.results import ARRAY, INTEGER, NUMBER, STRING, answering, cut, shape
from go_ent.engine.server.calls.sampling import Kept, Rounds, asked_later, sample

if TYPE_CHECKING:
    from fastmcp import FastMCP

RESULT = shape(
    "execution_id",
    "status",
    execution_id=STRING,
    status=STRING,
    summary=STRING,
    number=INTEGER,
    by=STRING,
    tokens_before=INTEGER,
    tokens_after=INTEGER,
    cost_usd=NUMBER,
    failed_before=ARRAY,
    summaries=ARRAY,
)


def add(server: FastMCP, engine: Engine) -> None:
    """Add the tool to *server*, and let the engine ask the client's model. An agent that go-ent has started gets
    neither: both cost.
    """
    if TAG in os.environ:
        return
    engine.asking.sample = sample
    kept = Kept[list[SummaryLink]]()

    @server.tool(
        annotations={"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": True},
        output_schema=RESULT,
    )
    @answering("agents")
    async def engine_summarize(
        execution_id: str,
        model: Annotated[ModelName | None, Field(description="Writes the summary.")] = None,
    ) -> ToolResult:
        """Summarise an execution's results; later steps see the summary instead."""
        state = await current().find(engine, execution_id)
        links = await _links(engine, state.id, model, kept)
        if isinstance(links, ToolResult):
            return links
        if not links:
            return ToolResult(
                structured_content={"execution_id": state.id, "status": "short enough: nothing was summarised"}
            )
        made = {"execution_id": state.id, "status": "summarised", **_of_link(links[-1])}
        if len(links) > 1:
            made["summaries"] = [_of_link(link) for link in links[:20]]
        return ToolResult(structured_content=made)


async def _links(
    engine: Engine, execution_id: str, model: str | None, kept: Kept[list[SummaryLink]]
) -> list[SummaryLink] | ToolResult:
    """The summaries that were made; or what the client's model is to say first, as the result of the call."""
    request = request_under_way()
    if request is None or not asked_later():
        return await to_its_end(engine.summarize(execution_id, model=model))
    rounds = kept.take(request.state or "") or Rounds(engine.summarize(execution_id, model=model))
    found = await to_its_end(rounds.next(request.answers))
    if isinstance(found, list):
        return found
    await kept.keep(rounds)
    return InputRequiredToolResult(InputRequiredResult(input_requests={**found}, request_state=rounds.id))


def _of_link(link: SummaryLink) -> dict[str, Any]:
    made: dict[str, Any] = {"summary": cut(link.summary), "number": link.number, "by": link.by}
    made |= {"tokens_before": link.tokens_before, "tokens_after": link.tokens_after}
    if link.cost_usd is not None:
        made["cost_usd"] = link.cost_usd
    if link.tried:
        made["failed_before"] = [cut(why) for why in link.tried[:20]]
    return made
