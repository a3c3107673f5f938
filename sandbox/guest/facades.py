"""Safe parts of `os` and `sys`, and the builtins that guest code sees."""

import builtins
import os
import sys
import types
from typing import Any

from guest import files, surface
from guest.bridge import ToolError
from guest.policy import Refused, why_not_import

_import = builtins.__import__


class Facade(types.ModuleType):
    """A module of which only a part is offered; the rest is refused, not merely missing."""

    def __getattr__(self, name: str) -> Any:
        if name in _STREAMS and self.__name__ == "sys":
            return getattr(sys, name.strip("_"))
        if name in ("__path__", "__file__", "__spec__", "__wrapped__", "__all__", "__warningregistry__"):
            raise AttributeError(name)
        raise Refused(
            f"{self.__name__}.{name} is not available in the sandbox",
            f"offered of {self.__name__}: {', '.join(n for n in sorted(surface.PARTIAL_MODULES[self.__name__]) if n[0] != '_')}",
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _STREAMS and self.__name__ == "sys":
            setattr(sys, name, value)
        else:
            super().__setattr__(name, value)


_STREAMS = frozenset(("stdout", "stderr", "stdin", "__stdout__", "__stderr__", "__stdin__"))


def _facade(module: types.ModuleType) -> Facade:
    facade = Facade(module.__name__, module.__doc__)
    for name in surface.PARTIAL_MODULES[module.__name__]:
        if hasattr(module, name) and name not in _STREAMS:
            setattr(facade, name, getattr(module, name))
    return facade


def _guarded_import(name: str, globals_: Any = None, locals_: Any = None, fromlist: Any = (), level: int = 0) -> Any:
    refusal = why_not_import(name) if level == 0 else ("relative imports are not available in the sandbox", "")
    if refusal is not None:
        raise Refused(*refusal)
    if name in FACADES or (not fromlist and name.partition(".")[0] in FACADES):
        return FACADES[name.partition(".")[0]]
    if fromlist:
        module = _import(name, globals_, locals_, fromlist, level)
        for wanted in fromlist:
            inner = getattr(module, wanted, None)
            if isinstance(inner, types.ModuleType) and inner.__name__ in FACADES:
                raise Refused(f"module {inner.__name__!r} is not available through {name}", f"write: import {inner.__name__}")
        return module
    return _import(name, globals_, locals_, fromlist, level)


def _checked(name: Any) -> None:
    if isinstance(name, str) and surface.refused_attribute(name):
        raise Refused(f"attribute {name!r} is not available in the sandbox", "it belongs to the interpreter's internals")


def _getattr(target: Any, name: str, *default: Any) -> Any:
    _checked(name)
    return getattr(target, name, *default)


def _setattr(target: Any, name: str, value: Any) -> None:
    _checked(name)
    setattr(target, name, value)


def _delattr(target: Any, name: str) -> None:
    _checked(name)
    delattr(target, name)


def _hasattr(target: Any, name: str) -> bool:
    _checked(name)
    return hasattr(target, name)


def _refuser(name: str, hint: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise Refused(f"{name!r} is not available in the sandbox", hint)

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


def _exit(code: Any = None) -> None:
    raise SystemExit(code)


FACADES: dict[str, Facade] = {}
BUILTINS: dict[str, Any] = {}


def install() -> None:
    """Build the facades and the guest's builtins. Done once, before the snapshot."""
    FACADES.update(sys=_facade(sys), os=_facade(os))
    FACADES["sys"].argv = ["code.py"]
    FACADES["sys"].path = []
    FACADES["sys"].executable = ""
    BUILTINS.update(vars(builtins))
    for name, hint in surface.REFUSED_NAMES.items():
        if name in BUILTINS and not name.startswith("__"):
            BUILTINS[name] = _refuser(name, hint)
    for name in ("__loader__", "__spec__"):
        BUILTINS.pop(name, None)
    BUILTINS.update(
        __import__=_guarded_import,
        open=files.open_file,
        getattr=_getattr,
        setattr=_setattr,
        delattr=_delattr,
        hasattr=_hasattr,
        exit=_exit,
        quit=_exit,
        ToolError=ToolError,
    )
