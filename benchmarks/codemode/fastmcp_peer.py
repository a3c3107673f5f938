"""The same tasks with FastMCP's CodeMode and its defaults: search, schemas, code, answer.

The code is what our own code mode runs, with `call_tool(name, params)` for the calls and without what its interpreter
(pydantic-monty) lacks.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Generator, Sequence
from contextlib import AsyncExitStack
from typing import Any

from fastmcp import Client

from benchmarks.codemode.scenarios import PIECE, Scenario, Script, Wrong, digest, follow
from benchmarks.codemode.talk import Call
from benchmarks.codemode.world import REPORT, World, make_upstream

# What monty has no module for, written out.
WITHOUT_COUNTER = {
    "from collections import Counter\n": "",
    'dict(sorted(Counter(o["state"] for o in orders).items()))': (
        'found = {}\nfor o in orders:\n    found[o["state"]] = found.get(o["state"], 0) + 1\ndict(sorted(found.items()))'
    ),
    "minutes = Counter()": "minutes = {}",
    'minutes[ticket["customer_id"]] += ticket["minutes"]': (
        'minutes[ticket["customer_id"]] = minutes.get(ticket["customer_id"], 0) + ticket["minutes"]'
    ),
}

WRAPPED = frozenset({"list_customers", "list_orders", "export_orders", "export_tickets", "read_report"})
UNWRAPPED = "async def get(name, params):\n    return (await call_tool(name, params))['result']\n"


async def open_client(stack: AsyncExitStack, world: World, size: int) -> Client[Any] | None:
    """A client of the upstream behind CodeMode; None where its interpreter is not installed."""
    try:
        import pydantic_monty  # noqa: F401
        from fastmcp.experimental.transforms.code_mode import CodeMode
    except ImportError:
        return None
    server = make_upstream(world, size)
    server.add_transform(CodeMode())
    return await stack.enter_async_context(Client(server))


def script(scenario: Scenario) -> Script:
    """What a model does that makes no mistake."""
    yield from _looked_up(scenario)
    if scenario.name == "each step needs a reader":
        return (yield from follow(lambda note: _execute(scenario.code.replace("N-11", note)), str))
    if scenario.name == "a text to be read whole":
        (text,) = yield [_execute(f'await tools.desk.read_report(name="{REPORT}")')]
        assert len(text) > PIECE
        return digest(text)
    (said,) = yield [_execute(scenario.code)]
    try:
        return json.loads(said)
    except ValueError:
        return said


def _looked_up(scenario: Scenario) -> Generator[Sequence[Call], list[str], None]:
    found = yield [Call("search", {"query": words, "limit": 5}) for words in scenario.searches]
    names = [name.partition(".")[2] for name in scenario.needs]
    if missing := [name for name in names if not any(name in text for text in found)]:
        raise Wrong(f"{scenario.name}: CodeMode's search did not find {', '.join(missing)}")
    yield [Call("get_schema", {"tools": names})]


def _execute(code: str) -> Call:
    return Call("execute", {"code": translated(code)})


def translated(code: str) -> str:
    """Code of ours as CodeMode runs it."""
    for ours, theirs in WITHOUT_COUNTER.items():
        code = code.replace(ours, theirs)
    tree = _Calls().visit(ast.parse(code))
    last = tree.body[-1]
    assert isinstance(last, ast.Expr)
    tree.body[-1] = ast.Return(last.value)
    made = ast.unparse(ast.fix_missing_locations(tree))
    return UNWRAPPED + made if any(f"get('{name}'" in made for name in WRAPPED) else made


class _Calls(ast.NodeTransformer):
    """`tools.desk.name(a=b)` becomes `call_tool("name", {"a": b})`. What is no object comes as {"result": …}: taken out."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if not name.startswith("tools.desk."):
            return node
        keys: list[ast.expr | None] = [ast.Constant(word.arg) for word in node.keywords]
        given = ast.Dict(keys, [word.value for word in node.keywords])
        short = name.removeprefix("tools.desk.")
        caller = "get" if short in WRAPPED else "call_tool"
        return ast.Call(ast.Name(caller), [ast.Constant(short), given], [])
