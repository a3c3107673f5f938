"""A bare MCP server that starts in no time, for tests that kill it: it notes its starts and its calls in the file
that it is given.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

TOOLS = [
    {"name": name, "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}
    for name in ("echo", "hang")
]
INFO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "bare", "version": "1"}}


def note(line: str) -> None:
    with open(sys.argv[1], "a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        return INFO
    if method == "tools/list":
        return {"tools": TOOLS}
    number = params["arguments"]["n"]
    note(f"{params['name']} {number}")
    return None if params["name"] == "hang" else {"content": [{"type": "text", "text": str(number)}]}


def main() -> None:
    note(f"start {os.getpid()}")
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and (result := answer(message["method"], message.get("params") or {})) is not None:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
