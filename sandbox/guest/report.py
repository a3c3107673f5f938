"""What went wrong, for the model that wrote the code: guest frames only, the line, and a hint."""

import difflib
import re
import sqlite3
import traceback
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, TracebackType
from typing import Any

from guest.bridge import ToolError, Tools, bridge
from guest.databases import HINTS
from guest.policy import Refused

FILE = "code.py"
MAX_TEXT = 4000
MAX_FRAMES = 20
MOST_OFFERED = 20  # tools that an error names
MOST_VALUES = 8  # of the line that failed
MAX_VALUE = 120  # characters
MOST_ITEMS, MOST_NESTED = 5, 2
PLAIN = frozenset((bool, float, complex, type(None)))
SEQUENCES: dict[type[Any], str] = {list: "[{}]", tuple: "({})", set: "{{{}}}", frozenset: "{{{}}}", dict: "{{{}}}"}
NO_VALUES = frozenset((ModuleType, FunctionType, BuiltinFunctionType, MethodType, Tools))
NAME = re.compile(r"(?<![\w.])[^\W\d]\w*")


def _cut(text: str, most: int = MAX_TEXT) -> str:
    more = len(text) - most
    text = text[:most].encode("utf-8", "backslashreplace").decode("utf-8")  # cut first: there may be no room for a copy
    return text if more <= 0 else f"{text}… [{more} more characters]"


def _position(tb: TracebackType) -> tuple[int, int | None]:
    code = tb.tb_frame.f_code
    for index, (line, _, column, _) in enumerate(code.co_positions()):
        if index == tb.tb_lasti // 2:
            return line or tb.tb_lineno, None if column is None else column + 1
    return tb.tb_lineno, None


def _frames(tb: TracebackType | None) -> list[TracebackType]:
    found = []
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == FILE:
            found.append(tb)
        tb = tb.tb_next
    return found


def text_of(error: BaseException) -> str:
    """What an exception says, if it can."""
    try:
        return _cut(str(error))
    except BaseException:
        return "(its message can't be shown)"


def _suggest_name(name: str, scope: dict[str, Any]) -> str | None:
    for tool in bridge.names:
        if name in (tool, tool.rpartition(".")[2]):
            return f"did you mean tools.{tool}?"
    known = [*scope, *scope.get("__builtins__", ()), "tools"]
    near = difflib.get_close_matches(name, [word for word in known if isinstance(word, str) and word.isidentifier()], 1)
    if near:
        return f"did you mean {near[0]}?"
    near = difflib.get_close_matches(name, bridge.names, 1)
    return f"did you mean tools.{near[0]}?" if near else None


def _hint(error: BaseException, frames: list[TracebackType], scope: dict[str, Any]) -> str | None:
    if isinstance(error, Refused):
        return error.hint or None
    if isinstance(error, ToolError):
        if error.kind == "UnknownTool":
            near = difflib.get_close_matches(error.name, bridge.names, 1, 0.5)
            shown = list(bridge.names)[:MOST_OFFERED]
            more = len(bridge.names) - len(shown)
            offered = ", ".join(f"tools.{name}" for name in shown) or "none"
            find = ": `await tools.search(words)` finds them" if bridge.finds else ""
            rest = f" and {more} more{find}" if more > 0 else ""
            return (f"did you mean tools.{near[0]}? " if near else "") + f"available: {offered}{rest}"
        if error.kind == "InvalidArguments":
            return "check the names and types of the arguments"
        return "catch ToolError to go on without this result"
    text = str(error) if isinstance(error, NameError | AttributeError | TypeError | ImportError | RuntimeError) else ""
    if "coroutine" in text and ("not" in text or "unsupported" in text):
        return "a tool call must be awaited: write `await tools.<name>(…)`"
    if isinstance(error, NameError) and error.name:
        local = {**scope, **frames[-1].tb_frame.f_locals} if frames else scope
        return _suggest_name(error.name, local)
    if isinstance(error, AttributeError) and error.name and error.obj is not None:
        near = difflib.get_close_matches(error.name, [word for word in dir(error.obj) if not word.startswith("__")], 1)
        return f"did you mean .{near[0]}?" if near else None
    if isinstance(error, KeyError) and error.args and frames:
        return None
    if isinstance(error, sqlite3.DatabaseError):
        return next((hint for words, hint in HINTS.items() if words in str(error)), None)
    if isinstance(error, RuntimeError) and "asyncio.run() cannot be called" in text:
        return "the code already runs in an event loop: write `await main()` instead of `asyncio.run(main())`"
    return None


def _values(tb: TracebackType, text: str) -> dict[str, str]:
    """What the names of a line stood for when it failed. Nothing of theirs runs for it: of what is of a class of their
    own, the name of the class is told.
    """
    here, everywhere = tb.tb_frame.f_locals, tb.tb_frame.f_globals
    found: dict[str, str] = {}
    for name in dict.fromkeys(NAME.findall(text)):
        if name in here or name in everywhere:
            value = here[name] if name in here else everywhere[name]
            kind = type(value)
            if kind not in NO_VALUES and not issubclass(kind, type) and len(found) < MOST_VALUES:
                found[name[:MAX_VALUE]] = _cut(_shown(value), MAX_VALUE)
    return found


def _shown(value: Any, depth: int = 0) -> str:
    kind = type(value)
    if kind in PLAIN:
        return repr(value)
    if kind is int:
        return repr(value) if value.bit_length() < 400 else f"<a number of {value.bit_length()} bits>"
    if kind is str or kind is bytes:
        return repr(value[:MAX_VALUE]) + ("…" if len(value) > MAX_VALUE else "")
    if kind in SEQUENCES:
        if depth == MOST_NESTED:
            return f"<{kind.__name__} of {len(value)}>"
        more = ", …" if len(value) > MOST_ITEMS else ""
        if kind is dict:
            pairs = [pair for pair, _ in zip(value.items(), range(MOST_ITEMS), strict=False)]
            items = [f"{_shown(key, depth + 1)}: {_shown(item, depth + 1)}" for key, item in pairs]
        else:
            items = [_shown(item, depth + 1) for item, _ in zip(value, range(MOST_ITEMS), strict=False)]
        return SEQUENCES[kind].format(", ".join(items) + more)
    return f"<{_cut(type.__dict__['__name__'].__get__(kind), 60)}>"


def report(error: BaseException, source: str, scope: dict[str, Any]) -> dict[str, Any]:
    """The fields of `run.error`."""
    lines = source.splitlines()
    frames = _frames(error.__traceback__)
    line: int | None = None
    column: int | None = None
    kind = _cut(str(type(error).__name__), 100)
    message = text_of(error)
    if isinstance(error, SyntaxError):
        if error.filename in (FILE, None, "<unknown>"):
            line, column = error.lineno, error.offset
        message = _cut(error.msg or message)
    elif isinstance(error, Refused) and error.line is not None:
        line, column = error.line, error.column
    elif not frames and isinstance(known := getattr(error, "line", None), int):
        line = known
    elif frames:
        line, column = _position(frames[-1])
    if isinstance(error, MemoryError) and "stack" in message:
        kind, message = "RecursionError", "the code nests too deeply for the parser"
    elif isinstance(error, RecursionError) and not message:
        message = "maximum recursion depth exceeded"
    if isinstance(error, ToolError):
        kind = "ToolError"
    text = []
    if frames:
        text.append("Traceback (most recent call last):")
        shown = frames if len(frames) <= MAX_FRAMES else [*frames[:5], None, *frames[-10:]]
        for tb in shown:
            if tb is None:
                text.append(f"  … {len(frames) - 15} more frames …")
                continue
            at, _ = _position(tb)
            text.append(f'  File "{FILE}", line {at}, in {tb.tb_frame.f_code.co_name}')
            if 0 < at <= len(lines):
                text.append(f"    {_cut(lines[at - 1].strip(), 200)}")
    if isinstance(error, SyntaxError) and line is not None and 0 < line <= len(lines):
        text += [f'  File "{FILE}", line {line}', f"    {_cut(lines[line - 1], 200)}", " " * (3 + (column or 1)) + "^"]
    text.append(f"{kind}: {message}" if message else kind)
    for note in list(getattr(error, "__notes__", ()))[:5]:
        text.append(_cut(str(note), 500))
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions[:10]:
            text.append(f"  | {type(inner).__name__}: {text_of(inner)}")
    return {
        "kind": kind,
        "message": message,
        "line": line,
        "column": column,
        "source_line": _cut(lines[line - 1], 500) if line is not None and 0 < line <= len(lines) else None,
        "traceback": _cut("\n".join(text), 20000),
        "hint": _hint(error, frames, scope),
        "values": (_values(frames[-1], lines[line - 1]) or None)
        if frames and line is not None and 0 < line <= len(lines)
        else None,
    }


def safely(error: BaseException, source: str, scope: dict[str, Any]) -> dict[str, Any]:
    """`report`, also for an exception that was made to break it: whatever its own code raises, exits and interrupts
    too.
    """
    try:
        return report(error, source, scope)
    except BaseException:
        kind = type.__dict__["__name__"].__get__(type(error))
        return {"kind": _cut(kind, 100), "message": "(its details can't be shown)"}


def strip_frames(error: BaseException) -> None:
    """Let go of everything the failed code held, before the report needs memory."""
    traceback.clear_frames(error.__traceback__)
    error.__traceback__ = None
