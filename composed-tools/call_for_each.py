# /// tool
# name = "call_for_each"
# requires = ["*"]
# ///
# /// examples
# {
#  "inputs": {"tool": "get_user", "each": [{"id": 1}, {"id": 2}], "common": {"full": true}},
#  "result": {
#   "calls": [
#    {"arguments": {"id": 1}, "result": {"name": "Ann"}, "error": null},
#    {"arguments": {"id": 2}, "result": null, "error": "no such user"}
#   ],
#   "failed": 1
#  },
#  "calls": [
#   {"tool": "get_user", "arguments": {"id": 1, "full": true}, "result": {"name": "Ann"}},
#   {"tool": "get_user", "arguments": {"id": 2, "full": true}, "error": "no such user"}
#  ]
# }
# {"inputs": {"tool": "get_user", "each": []}, "result": {"calls": [], "failed": 0}}
# {
#  "inputs": {"tool": "get_user", "each": [{"id": 2}], "on_error": "stop"},
#  "error": "get_user: no such user",
#  "calls": [{"tool": "get_user", "error": "no such user"}]
# }
# {"inputs": {"tool": "get_user", "each": [], "at_once": 0}, "error": "at_once must be 1 or more"}
# ///
import asyncio
from typing import Any, Literal, TypedDict

Arguments = dict[str, Any]


class Call(TypedDict):
    """One call, and what came of it."""

    arguments: Arguments
    result: Any
    error: str | None


class Calls(TypedDict):
    """All calls in the order in which they were asked for, and how many failed."""

    calls: list[Call]
    failed: int


async def call_for_each(
    tool: str,
    each: list[Arguments],
    common: Arguments | None = None,
    at_once: int = 8,
    on_error: Literal["collect", "stop"] = "collect",
) -> Calls:
    """Call a tool once for each of many arguments, several calls at a time, and collect what it returns.

    Args:
        tool: The tool's full name, such as "github.get_issue".
        each: The arguments of each call.
        common: Arguments that are the same in all calls.
        at_once: How many calls may be under way at the same time.
        on_error: Note a failed call and go on, or stop with its error.
    """
    if at_once < 1:
        raise ValueError("at_once must be 1 or more")
    slots = asyncio.Semaphore(at_once)

    async def call(arguments: Arguments) -> Call:
        async with slots:
            try:
                result = await tools[tool](**{**(common or {}), **arguments})
            except ToolError as error:
                if on_error == "stop":
                    raise
                return {"arguments": arguments, "result": None, "error": error.message}
        return {"arguments": arguments, "result": result, "error": None}

    calls = await asyncio.gather(*map(call, each))
    return {"calls": calls, "failed": sum(made["error"] is not None for made in calls)}
