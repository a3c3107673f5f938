"""RestrictedPython: the source is rewritten so that every access goes through guards, and runs in the host's interpreter.

The guards are those that its documentation lists, with its default policy. It has no limit of time or memory.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

from benchmarks.peers.adapter import HARMLESS_MODULES, Outcome, calling, lookup, missing

MORE_BUILTINS = (
    "all any bytearray classmethod dict enumerate filter frozenset iter list map max min next object property reversed set "
    "staticmethod sum super type BaseExceptionGroup ExceptionGroup RecursionError StopAsyncIteration TimeoutError"
).split()
IN_PLACE = {
    "+=": lambda x, y: x + y,
    "-=": lambda x, y: x - y,
    "*=": lambda x, y: x * y,
    "/=": lambda x, y: x / y,
    "//=": lambda x, y: x // y,
    "%=": lambda x, y: x % y,
    "**=": lambda x, y: x**y,
    "|=": lambda x, y: x | y,
    "&=": lambda x, y: x & y,
    "^=": lambda x, y: x ^ y,
}


def guarded_import(name: str, globals_: Any = None, locals_: Any = None, names: Any = (), level: int = 0) -> Any:
    if (
        name not in HARMLESS_MODULES and name != "_strptime"
    ):  # which datetime imports in the program's name; no program can say it
        raise ImportError(f"{name} may not be imported")
    return __import__(name, globals_, locals_, names, level)


def guarded_class(name: str, bases: tuple[type, ...], members: dict[str, Any]) -> type:
    """A class of the program's own, to whose instances it may write."""
    return type(name, bases, {**members, "_guarded_writes": True})


class Restricted:
    tool_program = calling("lookup(n)")

    def available(self) -> str | None:
        return missing("RestrictedPython", "RestrictedPython")

    def start(self) -> None:
        from RestrictedPython.Eval import default_guarded_getitem, default_guarded_getiter
        from RestrictedPython.Guards import (
            full_write_guard,
            guarded_iter_unpack_sequence,
            guarded_unpack_sequence,
            safe_builtins,
            safer_getattr_raise,
        )
        from RestrictedPython.PrintCollector import PrintCollector
        from RestrictedPython.Utilities import utility_builtins

        names = {**safe_builtins, **utility_builtins, "__import__": guarded_import, "getattr": safer_getattr_raise}
        names |= {name: getattr(builtins, name) for name in MORE_BUILTINS}
        self.globals = {
            "__builtins__": names,
            "__name__": "__main__",
            "__metaclass__": guarded_class,
            "_apply_": lambda function, *args, **options: function(*args, **options),
            "_getattr_": safer_getattr_raise,
            "_getitem_": default_guarded_getitem,
            "_getiter_": default_guarded_getiter,
            "_inplacevar_": lambda operation, x, y: IN_PLACE[operation](x, y),
            "_iter_unpack_sequence_": guarded_iter_unpack_sequence,
            "_print_": PrintCollector,
            "_unpack_sequence_": guarded_unpack_sequence,
            "_write_": full_write_guard,
            "lookup": lookup,
        }

    def run(self, code: str, inputs: Mapping[str, Any], timeout: float) -> Outcome:
        from RestrictedPython.compile import compile_restricted

        namespace = {**self.globals, **inputs}
        try:
            exec(compile_restricted(code, "<program>", "exec"), namespace)
            return Outcome("completed", namespace["result"])
        except MemoryError as error:
            return Outcome("memory", note=repr(error))
        except BaseException as error:
            return Outcome("error", note=repr(error))

    def close(self) -> None:
        pass


peer = Restricted()
