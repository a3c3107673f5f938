"""Contexts over MCP: summarise an execution now; and the connected client's own model as a summariser."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

from fastmcp.server.dependencies import get_context
from fastmcp.tools.base import ToolResult
from mcp_types import CreateMessageRequest, CreateMessageRequestParams, CreateMessageResult, SamplingMessage, TextContent
from pydantic import Field

from engine.context.models import SummaryFailed
from engine.engine import Engine
from engine.errors import EngineError
from engine.models import ModelName
from engine.runners.trees import TAG
from engine.server.code import cut, failed

if TYPE_CHECKING:
    from fastmcp import FastMCP

RESULT = {
    "type": "object",
    "properties": {"execution_id": {"type": "string"}, "status": {"type": "string"}, "summary": {"type": "string"}},
    "required": ["execution_id", "status"],
}
NONE = "the connected client offers no sampling"


def add(server: FastMCP, engine: Engine) -> None:
    """Add the tool to *server*, and let the engine ask the client's model. An agent that go-ent has started gets neither: both cost."""
    if TAG in os.environ:
        return
    engine.sample = sample

    @server.tool(annotations={"openWorldHint": True, "destructiveHint": False}, output_schema=RESULT)
    async def engine_summarize(
        execution_id: str,
        model: Annotated[ModelName | None, Field(description="That writes the summary.")] = None,
    ) -> ToolResult:
        """Summarise what an execution has come to: when it goes on, it is told the summary instead."""
        try:
            state = await engine.status(execution_id)
            link = await engine.summarize(state.id, model=model)
        except EngineError as error:
            return failed(str(error))
        if link is None:
            return ToolResult(structured_content={"execution_id": state.id, "status": "short enough: nothing was summarised"})
        made: dict[str, Any] = {"execution_id": state.id, "status": "summarised", "summary": cut(link.summary)}
        made |= {"number": link.number, "by": link.by, "tokens_before": link.tokens_before, "tokens_after": link.tokens_after}
        if link.cost_usd is not None:
            made["cost_usd"] = link.cost_usd
        if link.tried:
            made["failed_before"] = [cut(why) for why in link.tried[:20]]
        return ToolResult(structured_content=made)


async def sample(system: str, user: str, max_tokens: int) -> str:
    """What the model of the client says whose call is under way here. `SummaryFailed` if it offers none.

    Clients of the 2026-07-28 protocol can't be asked: it has no way back to them.
    """
    try:
        session = get_context().session
    except RuntimeError:
        raise SummaryFailed("no client is connected") from None
    offered = session.client_capabilities
    if offered is None or offered.sampling is None or not session.can_send_request:
        raise SummaryFailed(NONE)
    message = SamplingMessage(role="user", content=TextContent(type="text", text=user))
    params = CreateMessageRequestParams(messages=[message], system_prompt=system, max_tokens=max_tokens)
    answer = await session.send_request(CreateMessageRequest(params=params), CreateMessageResult)
    if not isinstance(answer.content, TextContent):
        raise SummaryFailed(f"the client's model answered with {answer.content.type}, not with text")
    return answer.content.text
