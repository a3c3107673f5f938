"""One run: check, compile, execute, encode. All of it here, in the guest; the host only passes text."""

import ast
import asyncio
import atexit
import base64
import binascii
import contextlib
import gc
import io
import json
import linecache
import marshal
import random
import re
import sys
import types
import warnings
from typing import Any

import wit_world
from guest import constants, encode, facades, files, interface, policy, report, shape, shapes
from guest.bridge import ToolError, Tools, bridge, checkpoint, line_of
from guest.loop import GuestLoop
from guest.output import Output

RESULT = "<result>"
RETURN = "<main>"
json_dumps = json.JSONEncoder().encode  # held here: code may replace the library's own
_decoder: Any = json.JSONDecoder()
_scan = _decoder.scan_once  # json.loads without its regular expressions
NO_ROOM = '{"status":"memory_limit"}\0\0'
FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
CO_COROUTINE = 0x80
_cancel_all_tasks: Any = asyncio.runners._cancel_all_tasks  # type: ignore[attr-defined]

output = Output()
keep_files = False
scope: dict[str, Any] = {}


class ForgottenAwait(Exception):
    """Raised when a tool was called and the call never awaited: it was never made. `line` is where."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line


def _returns(body: list[ast.stmt]) -> bool:
    """Whether a `return` stands at the top level, also inside if, for, while, with and try."""
    stack: list[Any] = list(body)
    while stack:
        node = stack.pop()
        kind = node.__class__
        if kind is ast.Return:
            return True
        for name in _BLOCKS.get(kind, ()):
            stack.extend(getattr(node, name))
    return False


_BLOCKS: dict[type, tuple[str, ...]] = {
    ast.If: ("body", "orelse"),
    ast.For: ("body", "orelse"),
    ast.AsyncFor: ("body", "orelse"),
    ast.While: ("body", "orelse"),
    ast.With: ("body",),
    ast.AsyncWith: ("body",),
    ast.Try: ("body", "handlers", "orelse", "finalbody"),
    ast.TryStar: ("body", "handlers", "orelse", "finalbody"),
    ast.ExceptHandler: ("body",),
    ast.Match: ("cases",),
    ast.match_case: ("body",),
}


def _stored(body: list[ast.stmt]) -> list[str]:
    """The names that top-level code binds, for the `global` line of its wrapper."""
    names: set[str] = set()
    stack: list[Any] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            stack.extend(node.decorator_list)
            continue
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            names.update(inner.target.id for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr))
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
        stack.extend(ast.iter_child_nodes(node))
    return sorted(names - {"*"})


def _awaits(body: list[ast.stmt]) -> bool:
    """Whether top-level code awaits; without, it runs outside any loop and may call `asyncio.run` itself."""
    stack: list[Any] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith) or (
            isinstance(node, ast.comprehension) and node.is_async
        ):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            stack.extend(ast.iter_child_nodes(node))
    return False


class _PlainAssign(ast.NodeTransformer):
    """`x: int = 1` may not annotate a global; at the top level of a wrapped run the annotation says nothing."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if not isinstance(node.target, ast.Name):
            return node
        new: ast.stmt = ast.Pass() if node.value is None else ast.Assign([node.target], node.value)
        return ast.copy_location(new, node)

    def _leave(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _leave


def _wrap(tree: ast.Module) -> ast.Module:
    """Top-level code with a `return`: the body of an async function whose names are all global."""
    names = _stored(tree.body)
    _PlainAssign().visit(tree)
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    body = [node for node in tree.body if node not in future]
    head: list[ast.stmt] = [ast.Global(names)] if names else []
    awaits = _awaits(body)
    kind = ast.AsyncFunctionDef if awaits else ast.FunctionDef
    main = kind(RETURN, ast.arguments([], [], None, [], [], None, []), head + body, [], None, None, [])
    value: ast.expr = ast.Call(ast.Name(RETURN, ast.Load()), [], [])
    call = ast.Assign([ast.Name(RESULT, ast.Store())], ast.Await(value) if awaits else value)
    for node in (*head, main, call):
        ast.copy_location(node, body[0])
        ast.fix_missing_locations(node)
    tree.body = [*future, main, call]
    return tree


Codes = tuple[types.CodeType, ...]  # of statements; and of the expression that ends them, if that is apart


def _in_two(source: str) -> Codes | None:
    """The code of what comes before the last expression, and of the expression; None if it is not seen at a glance.

    Without a syntax tree, which takes a fifth of the time. Where both parts compile they are what the whole is: each
    ends where its own text does, and nothing that begins without indentation goes on with what stands before it, but
    for words that no expression begins with.
    """
    lines = source.split("\n")
    last = next((at for at in range(len(lines) - 1, -1, -1) if lines[at][:1].strip(" \t\f\r#)]}")), None)
    if last is None or _STATEMENT.match(lines[last]):
        return None
    try:
        value = compile("\n" * last + "\n".join(lines[last:]), report.FILE, "eval", FLAGS, dont_inherit=True)
        return compile("\n".join(lines[:last]), report.FILE, "exec", FLAGS, dont_inherit=True), value
    except (SyntaxError, ValueError):
        return None


# A line that is no expression: it begins with a word of the language, or assigns.
_STATEMENT = re.compile(
    r"(?:def|class|if|for|while|with|try|else|elif|except|finally|return|import|from|async|del|pass|raise|assert|global"
    r"|match|type)\b|@|[\w.\[\]'\", ]+ *(?::[^=]*)?[-+*/%&|]?=[^=]"
)


def prepare(source: str) -> Codes:
    """The policy's verdict and the compiled code of *source*."""
    harmless = policy.is_harmless(source)
    if harmless and (codes := _in_two(source)) is not None:
        return codes
    tree: Any = compile(source, report.FILE, "exec", ast.PyCF_ONLY_AST | FLAGS, dont_inherit=True)
    if not harmless:
        policy.check(tree)
    body = tree.body
    if body:
        last = body[-1]
        wrap = _returns(body)
        if last.__class__ is ast.Expr:
            where: Any = {
                "lineno": last.lineno,
                "col_offset": last.col_offset,
                "end_lineno": last.end_lineno,
                "end_col_offset": last.end_col_offset,
            }
            if wrap:
                body[-1] = ast.Return(last.value, **where)
            else:
                body[-1] = ast.Assign([ast.Name(RESULT, ast.Store(), **where)], last.value, **where)
        if wrap:
            tree = _wrap(tree)
    return (compile(tree, report.FILE, "exec", FLAGS, dont_inherit=True),)


def _keep(codes: Codes) -> None:
    """Hand the compiled code to the host, for guests that run the same source later."""
    wit_world.keep(base64.b64encode(marshal.dumps(codes)).decode())


def _unawaited(coroutine: Any) -> None:
    output.write(f"RuntimeWarning: coroutine '{coroutine.__qualname__}' was never awaited\n")


def _forgotten() -> tuple[list[str], int | None]:
    """The tools that were called without `await`, and the first line that did; the calls are closed, or Python would
    complain once more."""
    names, lines = set(), []
    for call, code, at in bridge.unawaited.values():
        names.add(call.__qualname__)
        lines.append(line_of(code, at))
        call.close()
    bridge.unawaited.clear()
    return sorted(names), min(filter(None, lines), default=None)


class InputError(ValueError):
    """Raised when the inputs can't be made into what the function's types say."""


# Made before the snapshot is taken: making them takes longer than a short run does.
_loops: list[GuestLoop] = []
_inputs: list[io.TextIOWrapper] = []


def stock() -> None:
    """Have a loop and a standard input ready for the next run."""
    _loops.append(GuestLoop())
    _inputs.append(_standard_input())


def _standard_input() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), "utf-8")


def _in_loop(coroutine: Any) -> Any:
    """What `asyncio.run` does, without the signals and the executor that a guest does not have."""
    loop: Any = _loops.pop() if _loops else GuestLoop()
    asyncio.events._set_running_loop(None)
    try:
        return loop.run_until_complete(coroutine)
    finally:
        try:
            _cancel_all_tasks(loop)
            if loop._asyncgens:
                loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()
            asyncio.events._set_running_loop(None)


def _execute(codes: Codes, entry: str | None, inputs: dict[str, Any]) -> Any:
    """Run the code; the result is the value it left, or that of its function *entry*, called with the inputs."""
    scope.pop(RESULT, None)
    value = None
    for code in codes:
        if code.co_flags & CO_COROUTINE:
            return _in_loop(_drive(codes, entry, inputs))
    for code in codes:
        value = eval(code, scope)
    if entry is None:
        return scope.pop(RESULT, value)
    value = _call(entry, inputs)
    return _in_loop(_wait(value)) if value.__class__ is types.CoroutineType else value


async def _drive(codes: Codes, entry: str | None, inputs: dict[str, Any]) -> Any:
    """All of it in the loop, also what comes before the first `await`: it may make tasks."""
    value = None
    for code in codes:
        value = eval(code, scope)
        if code.co_flags & CO_COROUTINE:
            value = await value
    if entry is None:
        return scope.pop(RESULT, value)
    value = _call(entry, inputs)
    return await value if value.__class__ is types.CoroutineType else value


async def _wait(value: Any) -> Any:
    return await value


def _call(entry: str, inputs: dict[str, Any]) -> Any:
    function = scope.get(entry)
    if not callable(function):
        raise NameError(f"there is no function {entry}")
    try:
        arguments = shapes.build_arguments(function, inputs)
    except (ValueError, TypeError) as error:
        raise InputError(str(error)) from None
    return function(**arguments)


def _examine(source: str, what: str, request: dict[str, Any]) -> Any:
    """What the source is, instead of what it does; for its interface its definitions are run all the same."""
    if what == "shapes":
        return shape.suggest(request["inputs"]["runs"], request["inputs"]["least"], request["inputs"]["saved"])
    if what == "tool":
        return constants.as_tool(name=request["entry"], **request["inputs"])
    if what == "function":
        return shape.as_function(source, request["entry"], request["inputs"]["doc"])
    if what == "code":
        _keep(prepare(source))
        return None
    tree = compile(source, report.FILE, "exec", ast.PyCF_ONLY_AST | FLAGS, dont_inherit=True)
    _execute(prepare(source), None, {})
    return interface.describe(source, tree, scope, request["entry"])


def _result(value: Any) -> str:
    if value.__class__ is types.CoroutineType:
        name = value.__qualname__
        value.close()
        _, line = _forgotten()
        raise ForgottenAwait(f"the result is a call that was never awaited: write `await {name}(…)`", line)
    if bridge.unawaited:
        forgotten, line = _forgotten()
        names = ", ".join(forgotten)
        raise ForgottenAwait(
            f"{names} was called but never awaited, so the call was never made: write `await {names}(…)`", line
        )
    return encode.dumps_with_files(value, _attach)


def _attach(data: bytes) -> dict[str, Any]:
    """Bytes in a result are a file of the run; this stands in their place."""
    return {"file": files.folder.add("result", encode.ending(data), data), "bytes": len(data)}


def _finish(status: str, source: str, result: str = "", error: BaseException | None = None, **fields: Any) -> str:
    """The answer: how it went, the result and the files, each JSON already, with NULs between them."""
    if getattr(sys, "stdout", None) is not output:
        with contextlib.suppress(BaseException):  # a stream of theirs, which does what it likes
            sys.stdout.flush()
    output.flush()
    if files.folder.databases:
        files.folder.save_databases(end=not keep_files)
    if error is None and not fields and not files.folder.nodes:
        return f'{{"status":"{status}"}}\0{result}\0'
    answer: dict[str, Any] = {"status": status, **fields}
    if error is not None:
        answer["error"] = report.safely(error, source, scope)
    parts = [json_dumps(answer), "\0", result, "\0"]
    if files.folder.nodes:
        _hand_over_files(parts)
    return "".join(parts)


def _hand_over_files(parts: list[str]) -> None:
    """First which there are: those that changed with how long they are in base64, and those that did not. Then the
    former.
    """
    changed = {name: node for name, node in files.folder.nodes.items() if node.changed}
    kept = [name for name, node in files.folder.nodes.items() if not node.changed]
    parts += json_dumps([{name: (len(node.data) + 2) // 3 * 4 for name, node in changed.items()}, kept]), "\0"
    for node in changed.values():
        parts.append(base64.b64encode(node.data).decode("ascii"))
        if keep_files:
            node.changed = False  # the next run of a session hands over what it changes itself
        else:
            node.data = bytearray()  # large files need the room


def start(request: dict[str, Any]) -> None:
    """A clean place to run in: streams, files, randomness, names."""
    globals()["keep_files"] = request["session"]
    output.reset(request["stdout"])
    sys.stdout = sys.stderr = output
    sys.argv = [report.FILE]
    sys.stdin = _inputs.pop() if _inputs else _standard_input()
    bridge.reset(request["tools"], request["call_bytes"], request["call_values"])
    linecache.cache[report.FILE] = 0, None, request["source"].splitlines(True), report.FILE
    if request["fresh"]:
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        globals()["scope"] = report_scope = vars(module)
        report_scope.pop("__loader__", None)
        report_scope.pop("__spec__", None)
        report_scope["__builtins__"] = facades.BUILTINS
        report_scope["__file__"] = report.FILE
        report_scope["tools"] = Tools()
        report_scope["ToolError"] = ToolError
        report_scope["checkpoint"] = checkpoint
        files.folder.reset(
            {name: base64.b64decode(data) for name, data in request["files"].items()}, request["file_bytes"]
        )
        random.seed(request["seed"])
    elif request["files"]:
        for name, data in request["files"].items():
            files.folder.nodes[name] = files.Node(base64.b64decode(data), changed=False)
            files.folder._add_parents(name)
    if request["entry"] is None:
        scope.update(request["inputs"])


def forget() -> None:
    """Let go of what the last run left, as the next one would: that one then writes to fewer pages."""
    scope.clear()
    sys.modules.pop("__main__", None)
    linecache.cache.pop(report.FILE, None)
    sys.stdin = None
    output.reset(0)
    bridge.reset(())
    files.folder.reset({}, None)


def run(text: str) -> str:
    """Answer a request. Whatever the code did, this returns; what it can't, the host notices."""
    try:
        request, _ = _scan(text, 0)
    except ValueError as error:  # a number of thousands of digits
        return f'{{"status":"error","error":{json_dumps({"kind": "InputError", "message": f"the inputs can not be read: {error}"})}}}\0\0'  # noqa: E501
    if request["marked"]:
        request["inputs"] = encode.revived(request["inputs"])
    del text
    try:
        start(request)
        return _run(request)
    except MemoryError as error:
        with contextlib.suppress(BaseException):
            report.strip_frames(error)
        scope.clear()
        files.folder.reset({}, None)
        bridge.reset(())
        gc.collect()
        try:
            return _finish("memory_limit", "")
        except MemoryError:  # not even room for what was printed last
            return NO_ROOM


def _run(request: dict[str, Any]) -> str:
    source: str = request["source"]
    try:
        try:
            if request["examine"]:
                return _finish("completed", source, encode.dumps(_examine(source, request["examine"], request)))
            if request["code"]:
                codes: Codes = marshal.loads(binascii.a2b_base64(request["code"]))
            else:
                codes = prepare(source)
            result = _result(_execute(codes, request["entry"], request["inputs"]))
            if atexit._ncallbacks():
                atexit._run_exitfuncs()
        except SystemExit as error:
            if error.code not in (None, 0, False):
                raise
            result = "null"
        size = len(result) if result.isascii() else len(result.encode())
        if request["result_bytes"] is not None and size > request["result_bytes"]:
            if request["cut"]:
                return _finish("completed", source, json_dumps(result[: request["result_bytes"] // 6]), size=size)
            return _finish("result_limit", source, size=size)
        return _finish("completed", source, result)
    except MemoryError as error:
        if "stack" in report.text_of(error):  # the parser's own limit, not the memory's
            return _finish("error", source, error=error)
        raise
    except policy.Refused as error:
        return _finish("refused", source, error=error)
    except BaseException as error:
        return _finish("error", source, error=error)


warnings.simplefilter("ignore", SyntaxWarning)
warnings._warn_unawaited_coroutine = _unawaited  # type: ignore[attr-defined]
