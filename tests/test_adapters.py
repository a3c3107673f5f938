"""Canaries: what we use of other libraries that they do not promise to keep. One that fails says which has changed."""

from __future__ import annotations

import ast
import asyncio
import ctypes
import inspect
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
import uvicorn
import wasmtime
from fastmcp import Client, Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import FunctionTool
from mcp.client.auth import OAuthClientProvider
from mcp.server import Server
from mcp.server.context import HandlerResult
from mcp.server.session import ServerSession
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import CallToolRequestParams
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState
from wasmtime import _bindings, _ffi, component

from go_ent.engine.adapters.fastmcp_adapter import NoState, keep_no_state, plain_docstrings, take_over
from tests.support import ROOT
from tests.support.code import parsed
from tests.test_rooms import PACKAGES

ADAPTERS = {
    "wasmtime": "sandbox/worker/wasmtime_adapter.py",
    "fastmcp": "engine/adapters/fastmcp_adapter.py",
    "mcp": "engine/adapters/mcp_adapter.py",
    "uvicorn": "engine/adapters/uvicorn_adapter.py",
    "mcp's client": "composer/sources/mcp_adapter.py",
    "dbos": "engine/fleet/dbos_adapter.py",
}


def check(library: str, owner: object, *names: str) -> None:
    what = getattr(owner, "__name__", type(owner).__name__)
    gone = [name for name in names if not hasattr(owner, name)]
    assert not gone, f"{library} {version(library)}: {what} has no {', '.join(gone)} any more; see {ADAPTERS[library]}"


def check_parameters(library: str, function: Callable[..., object], *names: str) -> None:
    there = list(inspect.signature(function).parameters)
    assert there == list(names), (
        f"{library} {version(library)}: {function.__qualname__} takes {there} now; see {ADAPTERS[library]}"
    )


def test_pydantic_builds_adapters_and_models_when_they_are_used() -> None:
    """In a process of its own: where fastmcp is imported already, all of it is built."""
    code = (
        "from go_ent.composer.sources.fastmcp_loading import load_fastmcp, models_built_when_used\n"
        "load_fastmcp()\n"
        "from mcp_types import CallToolRequestParams, client_request_adapter as adapter\n"
        "from pydantic import BaseModel, TypeAdapter\n"
        "assert not adapter.pydantic_complete and not CallToolRequestParams.__pydantic_complete__\n"
        "call = {'method': 'tools/call', 'params': {'name': 'a', 'arguments': {'b': 1}}}\n"
        "assert adapter.validate_python(call).params == CallToolRequestParams(name='a', arguments={'b': 1})\n"
        "assert TypeAdapter(list[int]).pydantic_complete\n"
        "class Model(BaseModel):\n    a: 'int'\n"
        "assert Model.__pydantic_complete__ and Model.model_rebuild(force=True)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    told = f"pydantic {version('pydantic')}; see composer/sources/fastmcp_loading.py"
    assert done.returncode == 0, f"{told}\n{done.stderr}"


def test_fastmcp_takes_docstrings_as_they_are() -> None:
    def tool(a: int) -> None:
        """A tool.

        Args:
            a: a number
        """

    assert FunctionTool.from_function(tool).parameters["properties"]["a"]["description"] == "a number"
    with plain_docstrings():
        plain = FunctionTool.from_function(tool)
    assert plain.description == inspect.getdoc(tool)
    assert "description" not in plain.parameters["properties"]["a"]
    assert FunctionTool.from_function(tool).description == "A tool."


def test_fastmcp_has_the_server_below_it() -> None:
    server = FastMCP("canary")
    check("fastmcp", server, "_mcp_server")
    check("fastmcp", server._mcp_server, "add_request_handler", "middleware")


async def test_fastmcp_asks_the_store_that_we_put_in_its_place() -> None:
    server: FastMCP = FastMCP("x")
    keep_no_state(server)
    assert isinstance(server._state_store, NoState)
    with pytest.raises(AttributeError, match="elsewhere"):
        keep_no_state(server)

    @server.tool
    async def remember(context: Context) -> str:
        assert await context.get_state("a") is None
        await context.set_state("a", 1)
        return "kept"

    async with Client(server) as client:
        with pytest.raises(ToolError, match="sessions keep nothing"):
            await client.call_tool("remember")


def test_mcp_says_who_owns_sessions() -> None:
    manager = StreamableHTTPSessionManager(Server("canary"))
    check("mcp", manager, "_session_owners", "_admit_session")
    check_parameters("mcp", StreamableHTTPSessionManager._admit_session, "self", "requestor")
    assert not manager._session_owners


def test_mcp_reads_and_refreshes_logins_where_we_do() -> None:
    client = ADAPTERS["mcp's client"]
    for name in ("_initialize", "_refresh_token"):
        assert inspect.iscoroutinefunction(getattr(OAuthClientProvider, name, None)), (
            f"mcp {version('mcp')}: OAuthClientProvider has no {name} any more; see {client}"
        )


def test_mcp_has_the_connection_of_a_session() -> None:
    assert "self._connection = " in inspect.getsource(ServerSession.__init__), (
        f"mcp {version('mcp')}: ServerSession has no _connection any more; see {ADAPTERS['mcp']}"
    )


async def test_uvicorn_has_the_parts_of_a_connection() -> None:
    async def app(scope: object, receive: object, send: object) -> None: ...

    config = uvicorn.Config(app, lifespan="off")
    protocol = H11Protocol(config, ServerState(), {}, asyncio.get_running_loop())
    check("uvicorn", protocol, "app_state", "cycle", "timeout_keep_alive_task", "loop", "transport")
    check("uvicorn", protocol, "connection_made", "data_received", "connection_lost")
    check("uvicorn", uvicorn.Server(config), "startup", "capture_signals", "should_exit", "started")
    assert "servers" in uvicorn.Server.__annotations__ or "self.servers" in inspect.getsource(uvicorn.Server), (
        f"uvicorn {version('uvicorn')}: Server has no servers any more; see {ADAPTERS['uvicorn']}"
    )


def test_wasmtime_has_the_c_interface() -> None:
    check("wasmtime", wasmtime.WasmtimeError, "_from_ptr")
    check("wasmtime", wasmtime.Store, "_context")
    tree = parsed(ROOT / ADAPTERS["wasmtime"])
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "c"
    }
    assert used
    check("wasmtime", _bindings, *sorted(used))
    functions = {
        node.slice.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "_dll"
        and isinstance(node.slice, ast.Constant)
    }
    assert functions
    check("wasmtime", _ffi.dll, *sorted(map(str, functions)))
    assert "self._func" in inspect.getsource(component.Func) or "_func" in component.Func.__annotations__, (
        f"wasmtime {version('wasmtime')}: component.Func has no _func any more; see {ADAPTERS['wasmtime']}"
    )


def test_wasmtimes_values_are_laid_out_as_we_write_them() -> None:
    value = _bindings.wasmtime_component_val_t
    assert (value.kind.offset, value.of.offset, ctypes.sizeof(value)) == (0, 8, 32), (
        f"wasmtime {version('wasmtime')}: its component values are laid out in another way; see {ADAPTERS['wasmtime']}"
    )


# Private names of our own that another module of the same room uses, and what the standard library documents.
KNOWN = {"sandbox/host/session.py": {"_run", "_loop"}, "engine/prompts/templating.py": {"_generate"}}
DOCUMENTED = {"_exit", "_replace"}


def foreign(path: Path) -> set[str]:
    """Private names that a module takes from elsewhere: what it imports, and attributes that it defines nowhere."""
    tree = parsed(path)
    names, defined, used = set[str](), set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {part for alias in node.names for part in (*(node.module or "").split("."), alias.name)}
        elif isinstance(node, ast.Import):
            names |= {part for alias in node.names for part in alias.name.split(".")}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined.add(node.target.id)
        elif isinstance(node, ast.Attribute):
            inherited = isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super"
            if isinstance(node.ctx, ast.Store) and not inherited:
                defined.add(node.attr)
            elif inherited or not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                used.add(f"super.{node.attr}" if inherited else node.attr)
    used = {name.removeprefix("super.") for name in used if name.startswith("super.") or name not in defined}
    return {name for name in names | used if name.startswith("_") and not name.startswith("__")}


def test_private_parts_of_libraries_are_used_by_their_adapters_alone() -> None:
    adapters = {ROOT / path for path in ADAPTERS.values()}
    assert {path for path in adapters if foreign(path)} >= adapters - {ROOT / ADAPTERS["uvicorn"]}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            name = str(path.relative_to(ROOT))
            if path not in adapters and not name.startswith("sandbox/guest/"):
                assert not foreign(path) - DOCUMENTED - KNOWN.get(name, set()), (
                    f"{name}: what a library does not promise to keep belongs in an adapter"
                )
                assert "H11Protocol" not in path.read_text(encoding="utf-8"), name


@pytest.mark.parametrize(
    "code",
    [
        "from wasmtime import _bindings",
        "import mcp._parts",
        "def f(server): return server._mcp_server",
        "class A(B):\n    def _x(self): return super()._x()",
    ],
)
def test_a_new_use_is_noticed(tmp_path: Path, code: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(code)
    assert foreign(path)


async def test_fastmcp_lets_its_handlers_be_replaced() -> None:
    server: FastMCP = FastMCP("x")
    asked: list[str] = []

    @server.tool
    def twice(x: int) -> int:
        return 2 * x

    async def ours(context: object, params: CallToolRequestParams) -> HandlerResult:
        asked.append(params.name)
        return await theirs(context, params)

    theirs = take_over(server, "tools/call", CallToolRequestParams, ours)
    async with Client(server) as client:
        assert (await client.call_tool("twice", {"x": 2})).data == 4
    assert asked == ["twice"]
    with pytest.raises(AttributeError, match="does not answer no/such any more"):
        take_over(server, "no/such", CallToolRequestParams, ours)
