"""Safe parts of `os`, `sys`, `gc` and `inspect`, and the builtins that guest code sees."""

import _socket
import builtins
import errno
import gc
import inspect
import io
import os
import pickle
import socket
import sys
import types
from typing import Any

from guest import files, surface
from guest.bridge import ToolError, Tools, bridge, describe
from guest.policy import Refused, RefusedAttribute, RefusedImport, partial_hint, why_not_import

_import = builtins.__import__


class Facade(types.ModuleType):
    """A module of which only a part is offered; the rest is refused, not merely missing."""

    def __getattr__(self, name: str) -> Any:
        if name in _LIVE and self.__name__ == "sys":
            return getattr(sys, name.strip("_"))
        if name in ("__path__", "__file__", "__spec__", "__wrapped__", "__all__", "__warningregistry__"):
            raise AttributeError(name)
        raise RefusedAttribute(
            f"{self.__name__}.{name} is not available in the sandbox", partial_hint(self.__name__, name)
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _LIVE and self.__name__ == "sys":
            setattr(sys, name, value)
        else:
            super().__setattr__(name, value)


# Not copied into the facade but passed on: the library reads the real ones.
_LIVE = frozenset(("argv", "stdout", "stderr", "stdin", "__stdout__", "__stderr__", "__stdin__"))


def _facade(module: types.ModuleType) -> Facade:
    facade = Facade(module.__name__, module.__doc__)
    for name in surface.PARTIAL_MODULES[module.__name__]:
        if hasattr(module, name) and name not in _LIVE:
            setattr(facade, name, getattr(module, name))
    return facade


def _guarded_import(name: str, globals_: Any = None, locals_: Any = None, fromlist: Any = (), level: int = 0) -> Any:
    if name in ("__main__", "builtins"):  # pickle and copy ask for these; code can't, the policy has seen to that
        return _import(name, globals_, locals_, fromlist, level)
    refusal = (
        why_not_import(name, private=True) if level == 0 else ("relative imports are not available in the sandbox", "")
    )
    if refusal is not None:
        raise RefusedImport(*refusal)
    if name in FACADES or (not fromlist and name.partition(".")[0] in FACADES):
        return FACADES[name.partition(".")[0]]
    if fromlist:
        module = _import(name, globals_, locals_, fromlist, level)
        for wanted in fromlist:
            inner = getattr(module, wanted, None)
            if isinstance(inner, types.ModuleType) and inner.__name__ in FACADES:
                raise Refused(
                    f"module {inner.__name__!r} is not available through {name}", f"write: import {inner.__name__}"
                )
        return module
    return _import(name, globals_, locals_, fromlist, level)


def _checked(name: Any) -> Any:
    if isinstance(name, str):
        name = str.__str__(name)  # of a subclass of str only the text counts, not its methods
        if surface.refused_attribute(name):
            raise Refused(
                f"attribute {name!r} is not available in the sandbox", "it belongs to the interpreter's internals"
            )
    return name


def _getattr(target: Any, name: str, *default: Any) -> Any:
    return getattr(target, _checked(name), *default)


def _setattr(target: Any, name: str, value: Any) -> None:
    setattr(target, _checked(name), value)


def _delattr(target: Any, name: str) -> None:
    delattr(target, _checked(name))


def _hasattr(target: Any, name: str) -> bool:
    return hasattr(target, _checked(name))


def _getmembers(target: Any, predicate: Any = None) -> list[tuple[str, Any]]:
    return [pair for pair in inspect.getmembers(target, predicate) if not surface.refused_attribute(pair[0])]


def _refuser(name: str, hint: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise Refused(f"{name!r} is not available in the sandbox", hint)

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


def _exit(code: Any = None) -> None:
    raise SystemExit(code)


def _help(thing: Any = None) -> None:
    """Print what a tool takes, returns and does; of anything else, its signature and docstring."""
    if isinstance(thing, Tools | str) and bridge.finds:
        print(describe(thing))
        return
    try:
        shape = str(inspect.signature(thing))
    except (TypeError, ValueError):
        shape = ""
    name = getattr(thing, "__qualname__", "") or type(thing).__qualname__
    print(f"{name}{shape}\n{inspect.getdoc(thing) or '(it has no docstring)'}")


class _Unpickler(pickle.Unpickler):
    """Unpickling looks up names too: the same ones are refused."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "builtins":
            if name in surface.REFUSED_NAMES or name in ("getattr", "setattr", "delattr"):
                raise Refused(f"{name!r} is not available in the sandbox", "pickle only data and classes of your own")
        elif module != "__main__" and (refusal := why_not_import(module, private=True)) is not None:
            raise Refused(*refusal)
        if module in FACADES or any(surface.refused_attribute(part) for part in name.split(".")):
            raise Refused(
                f"{module}.{name} is not available to pickle in the sandbox", "pickle only data and classes of your own"
            )
        return super().find_class(module, name)


def _loads(data: bytes, /, **options: Any) -> Any:
    return _Unpickler(io.BytesIO(data), **options).load()


def _load(file: Any, **options: Any) -> Any:
    return _Unpickler(file, **options).load()


FACADES: dict[str, Facade] = {}
BUILTINS: dict[str, Any] = {}


def _no_network(*args: object, **options: object) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def install() -> None:
    """Build the facades and the guest's builtins. Done once, before the snapshot."""
    # The library looks names up in places where nobody would expect it; WASI has none here, so asking it would trap.
    for module in (_socket, socket):
        for name in ("getaddrinfo", "getnameinfo", "gethostbyaddr", "gethostbyname", "gethostbyname_ex"):
            if hasattr(module, name):
                setattr(module, name, _no_network)
    FACADES.update((module.__name__, _facade(module)) for module in (sys, os, gc, inspect))
    FACADES["sys"].path = []
    FACADES["sys"].executable = ""
    FACADES["inspect"].getmembers = _getmembers
    library: Any = pickle
    library.Unpickler, library.loads, library.load = _Unpickler, _loads, _load
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
        help=_help,
        exit=_exit,
        quit=_exit,
        ToolError=ToolError,
    )
