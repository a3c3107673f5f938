"""An MCP server over stdio whose tools are what a JSON file says at that moment: `file_server.py TOOLS STARTS`.

Each start is noted in STARTS. In the file, `tools` are the tools as they are listed; `stderr` is written, and `exit`
ends it, at the start; with `silent` it never answers. A call answers with its arguments; one of `announce` also tells
that the tools have changed. It imports next to nothing, so that tests can start many.
"""

import json
import os
import sys
from pathlib import Path

tools, starts = map(Path, sys.argv[1:3])


def said() -> dict:  # type: ignore[type-arg]
    found: dict = json.loads(tools.read_text())  # type: ignore[type-arg]
    return found


with starts.open("a") as file:
    file.write(f"{os.getpid()}\n")
if "stderr" in said():
    sys.stderr.write(said()["stderr"])
    sys.stderr.flush()
if "exit" in said():
    sys.exit(said()["exit"])
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or said().get("silent"):
        continue
    params = message.get("params") or {}
    result: dict  # type: ignore[type-arg]
    if message["method"] == "initialize":
        server = {"name": "file", "version": said().get("version", "1")}
        capabilities = {"tools": {"listChanged": True}}
        result = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": server}
    elif message["method"] == "tools/list":
        result = {"tools": said()["tools"]}
    else:
        if params["name"] == "announce":
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)
        result = {"content": [{"type": "text", "text": json.dumps(params.get("arguments", {}))}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
