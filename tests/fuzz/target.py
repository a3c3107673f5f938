"""What a fuzz target is: a parser, what it may raise, and inputs to begin with."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

Parse = Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class Target:
    """A parser. What it raises beside *refuses* is a crash, and so is an `AssertionError` of its own check."""

    name: str
    parse: Parse
    refuses: tuple[type[BaseException], ...]
    seeds: tuple[bytes, ...]

    def __call__(self, data: bytes) -> bool:
        """Parse *data*; whether it was taken for what it should be."""
        try:
            self.parse(data)
        except self.refuses:
            return False
        return True


TARGETS: dict[str, Target] = {}


def target(*seeds: bytes, refuses: tuple[type[BaseException], ...] = ()) -> Callable[[Parse], Parse]:
    """Make a function a target under its own name. At least one of its *seeds* is one that it takes."""

    def add(parse: Parse) -> Parse:
        name = parse.__name__
        if name in TARGETS:
            raise ValueError(f"two targets are called {name}")
        TARGETS[name] = Target(name, parse, refuses, seeds)
        return parse

    return add


def targets() -> dict[str, Target]:
    for module in ("files", "wires"):
        import_module(f"tests.fuzz.{module}")
    return TARGETS


@cache
def folder() -> Path:
    """A folder for parsers of files, gone with the process."""
    keep = tempfile.TemporaryDirectory(prefix="go-ent-fuzz-")
    _KEPT.append(keep)
    return Path(keep.name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def as_file(name: str, data: bytes) -> Path:
    path = folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
