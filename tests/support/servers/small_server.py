"""A bare MCP server over stdio that starts in no time, for tests to which it is only somebody's server; it leaves a
file where it starts.
"""

import json
import sys
from pathlib import Path
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [
    {"name": "size", "description": "The size.", "inputSchema": TEXT, "annotations": {"readOnlyHint": True}},
    {"name": "drop", "description": "Drop.", "inputSchema": TEXT, "annotations": {"destructiveHint": True}},
]
INFO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}

Path("started").touch()
for line in sys.stdin:
    result: dict[str, Any]
    message = json.loads(line)
    if message["method"] == "initialize":
        result = INFO
    elif message["method"] == "tools/list":
        result = {"tools": TOOLS}
    elif message["method"] == "tools/call":
        text = message["params"]["arguments"]["text"]
        said = str(len(text)) if message["params"]["name"] == "size" else f"dropped {text}"
        result = {"content": [{"type": "text", "text": said}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
