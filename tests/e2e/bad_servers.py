"""MCP servers that misbehave, as programs of Python."""

from __future__ import annotations

from dataclasses import dataclass

# What one says to each line that it hears.
SPEAK = """
import json, sys
def say(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def tool(name, schema=None): return {"name": name, "inputSchema": schema or {"type": "object"}}
for line in sys.stdin:
    heard = json.loads(line)
    method, number = heard.get("method"), heard.get("id")
    if method == "initialize":
        told = {"tools": {"listChanged": True}}
        say(id=number, result={"protocolVersion": "2025-06-18", "capabilities": told,
                               "serverInfo": {"name": "bad", "version": "1"}})
    elif method == "tools/list": TOOLS
    elif method == "tools/call": CALL
    elif number is not None: say(id=number, error={"code": -32601, "message": "no such method"})
"""
ANSWERS = 'say(id=number, result={"content": [{"type": "text", "text": "fine"}]})'
SILENT = "import time\nprint('starting', file=__import__('sys').stderr, flush=True)\ntime.sleep(3000)"
MANY = SPEAK.replace("TOOLS", 'say(id=number, result={"tools": [tool(f"t{n}") for n in range(5000)]})')
WRONG = SPEAK.replace(
    "TOOLS",
    'say(id=number, result={"tools": [tool("good"), {"name": "bad", "inputSchema": 5}, '
    'tool("odd", {"type": "object", "properties": {"x": {"type": "strng"}}})]})',
)
CHANGING = SPEAK.replace("TOOLS", 'say(id=number, result={"tools": [tool(n) for n in names]})').replace(
    "CALL", ANSWERS + '; names.append("later"); say(method="notifications/tools/list_changed")'
)


@dataclass(frozen=True)
class Bad:
    """A server that misbehaves: what it is, and what is told of it when it is added."""

    name: str
    code: str
    told: str


BAD = (
    Bad("silent", SILENT, "silent"),
    Bad("many", MANY.replace("CALL", ANSWERS), "only the first"),
    Bad("wrong", WRONG.replace("CALL", ANSWERS), "'bad' is not offered"),
    Bad("changing", f"names = ['first']\n{CHANGING}", "changing: 1 tool"),
)
