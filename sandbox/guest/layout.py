"""Where code lies: what runs execute is copied to one place, so that they write to fewer pages of the snapshot.

CPython counts, between a function's instructions, how often it has tried to make them faster, also where it never can.
So to execute code is to write to it, and code lies where its module was imported, among much that nobody writes to.
"""

import gc
import importlib
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any

_opcodes: Any = importlib.import_module("_opcode_metadata")
_HAS_RUN: int = _opcodes._specialized_opmap["RESUME_CHECK"]  # what code begins with from its second run on
_BEGINNING = 16  # instructions; cells and a generator are made before


def _adapted(code: Any) -> bytes:
    """Its instructions as they are now, with what is counted between them."""
    return code._co_code_adaptive  # type: ignore[no-any-return]


def _functions() -> list[types.FunctionType]:
    return [found for found in gc.get_objects() if found.__class__ is types.FunctionType]


def executed() -> list[types.CodeType]:
    """The code that has run, of functions and of what is inside them, in the order of the sources."""
    found: dict[int, types.CodeType] = {}
    waiting = [function.__code__ for function in _functions()]
    while waiting:
        code = waiting.pop()
        if id(code) not in found:
            found[id(code)] = code
            waiting += [inner for inner in code.co_consts if inner.__class__ is types.CodeType]
    # The body of a class has names that a copy would not hide.
    run = [
        code
        for code in found.values()
        if code.co_flags & inspect.CO_OPTIMIZED and _HAS_RUN in _adapted(code)[: 2 * _BEGINNING : 2]
    ]
    return sorted(run, key=lambda code: (code.co_filename, code.co_firstlineno))


def written(codes: Iterable[types.CodeType], act: Callable[[], object]) -> list[types.CodeType]:
    """Those of the codes that *act* writes to."""
    before = [(code, _adapted(code)) for code in codes]
    act()
    return [code for code, adapted in before if _adapted(code) != adapted]


def gather(codes: Iterable[types.CodeType]) -> None:
    """Have functions use copies of these codes, which lie one behind the other. A copy has not run yet."""
    chosen = {id(code): code for code in codes}
    copies: dict[int, types.CodeType] = {}

    def copy(code: types.CodeType) -> types.CodeType:
        if id(code) not in copies:
            parts = [copy(part) if id(part) in chosen else part for part in code.co_consts]
            copies[id(code)] = made = code.replace(co_consts=tuple(parts))
            assert made == code, f"a copy of {code} is not the same"
        return copies[id(code)]

    for code in chosen.values():
        copy(code)
    for function in _functions():
        if id(function.__code__) in chosen:
            function.__code__ = copies[id(function.__code__)]
