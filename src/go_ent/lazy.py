"""Packages that import a name's module when the name is first used: a program pays only for what it uses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, Collection[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's `__getattr__` and `__dir__`. `homes` names, for each module of the package, what is taken from it."""
    home_of = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return get, lambda: sorted(home_of)
