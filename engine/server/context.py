"""Contexts over MCP: summarise an execution now; and the connected client's own model as a summariser."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

from fastmcp.server.dependencies import get_context
from fastmcp.tools.base import ToolResult
from mcp.shared.message import ServerMessageMetadata
from mcp_types import CreateMessageRequest, CreateMessageRequestParams, CreateMessageResult, SamplingMessage, TextContent
from pydantic import Field

from engine.context.models import Link, SummaryFailed
from engine.engine import Engine
from engine.models import ModelName
from engine.runners.trees import TAG
from engine.server.answers import ARRAY, INTEGER, NUMBER, STRING, answering, cut, shape
from engine.server.callers import current
from engine.server.calling import to_its_end

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
NONE = "the connected client offers no sampling"


def add(server: FastMCP, engine: Engine) -> None:
    """Add the tool to *server*, and let the engine ask the client's model. An agent that go-ent has started gets neither: both cost."""
    if TAG in os.environ:
        return
    engine.asking.sample = sample

    @server.tool(
        annotations={"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": True}, output_schema=RESULT
    )
    @answering("agents")
    async def engine_summarize(
        execution_id: str,
        model: Annotated[ModelName | None, Field(description="That writes the summary.")] = None,
    ) -> ToolResult:
        """Summarise what an execution has come to: when it goes on, it is told the summary instead."""
        state = await current().find(engine, execution_id)
        links = await to_its_end(engine.summarize(state.id, model=model))
        if not links:
            return ToolResult(structured_content={"execution_id": state.id, "status": "short enough: nothing was summarised"})
        made = {"execution_id": state.id, "status": "summarised", **_of_link(links[-1])}
        if len(links) > 1:
            made["summaries"] = [_of_link(link) for link in links[:20]]
        return ToolResult(structured_content=made)


def _of_link(link: Link) -> dict[str, Any]:
    made: dict[str, Any] = {"summary": cut(link.summary), "number": link.number, "by": link.by}
    made |= {"tokens_before": link.tokens_before, "tokens_after": link.tokens_after}
    if link.cost_usd is not None:
        made["cost_usd"] = link.cost_usd
    if link.tried:
        made["failed_before"] = [cut(why) for why in link.tried[:20]]
    return made


async def sample(system: str, user: str, max_tokens: int) -> str:
    """What the model of the client says whose call is under way here. `SummaryFailed` if it offers none.

    Clients of the 2026-07-28 protocol can't be asked: it has no way back to them.
    """
    try:
        context = get_context()
        session = context.session
    except RuntimeError:
        raise SummaryFailed("no client is connected") from None
    offered = session.client_capabilities
    if offered is None or offered.sampling is None or not session.can_send_request:
        raise SummaryFailed(NONE)
    message = SamplingMessage(role="user", content=TextContent(type="text", text=user))
    params = CreateMessageRequestParams(messages=[message], system_prompt=system, max_tokens=max_tokens)
    call = ServerMessageMetadata(related_request_id=context.request_id)  # over HTTP it goes by the way of the call
    answer = await session.send_request(CreateMessageRequest(params=params), CreateMessageResult, metadata=call)
    if not isinstance(answer.content, TextContent):
        raise SummaryFailed(f"the client's model answered with {answer.content.type}, not with text")
    return answer.content.text
