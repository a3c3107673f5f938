"""States that outlive their process: a file each, whole or not there, changed by one process at a time."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from go_ent.composer.project.files import check_folder, ignore_state, locked, read_bounded, write_whole
from go_ent.composer.project.items import apart
from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import BadState, BadTask, ExecutionNotFound
from go_ent.engine.core.explain import explain
from go_ent.engine.core.models import Model
from go_ent.engine.storage.claims import Claim, held_by

MAX_STATE = 64 << 20
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
S = TypeVar("S", bound=Model)


@dataclass(frozen=True, slots=True)
class Listing(Generic[S]):
    """The states that could be read, and for each that could not, why."""

    states: tuple[S, ...]
    problems: tuple[str, ...]


class StateFiles(Generic[S]):
    """States of one kind: `<name>.json` in a folder, each whole or not there. The methods block: call them in a
    thread.
    """

    def __init__(self, folder: Path, model: type[S], kind: str) -> None:
        self.folder, self.kind = folder, kind
        self._model = model

    def path(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise BadTask(
                f"a {self.kind} can't be called {name[:80]!r}: letters, digits, - and _, at most 64, the first "
                "no - or _"
            )
        return self.folder / f"{name}.json"

    def names(self) -> list[str]:
        try:
            found = os.listdir(self.folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(name[:-5] for name in found if name.endswith(".json") and NAME.fullmatch(name[:-5]))

    def load(self, name: str) -> S:
        """A state, or `BadState` that names the file which can't be used. Such a file is never written over."""
        path = self.path(name)
        try:
            data = read_bounded(path, MAX_STATE)
        except FileNotFoundError:
            there = ", ".join(self.names()[:20]) or "none"
            raise ExecutionNotFound(f"there is no {self.kind} {name}; there are: {there}") from None
        except OSError as error:
            raise BadState(f"{path} can't be read: {error.strerror or error}") from None
        if len(data) > MAX_STATE:
            raise BadState(f"{path} is larger than {MAX_STATE} bytes: it is no {self.kind}")
        try:
            return self._model.model_validate_json(data)
        except ValidationError as error:
            raise BadState(
                f"{path} is damaged, or of another go-ent: {explain(error)}; move it away to start anew"
            ) from None

    def all(self) -> Listing[S]:
        """All of them, by name. One that can't be read hides none of the others."""
        states: list[S] = []
        problems: dict[str, str] = {}
        for name in self.names():
            with apart(name, problems):
                states.append(self.load(name))
        told = (why if name in why else f"{self.path(name)}: {why}" for name, why in problems.items())
        return Listing(tuple(states), tuple(told))

    def change(self, name: str, change: Callable[[S], S]) -> S:
        """Read a state, change it and write it, alone among all processes."""
        self.load(name)  # a name that is none leaves no lock behind
        with self.changing(name):
            now = self.load(name)
            then = change(now)
            if then is not now:
                self.save(name, then)
            return then

    def save(self, name: str, state: S, *, most: int = MAX_STATE) -> None:
        data = state.model_dump_json(indent=1).encode()
        if len(data) > most:
            raise BadTask(f"{self.kind} {name} is too large to be kept: {len(data)} bytes, and {most} may be")
        write_whole(self.path(name), data)

    def changing(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Alone, among all processes, while a state is read and written."""
        self.path(name)
        self._make()
        return locked(self.folder / f".{name}.lock")

    def claim(self, name: str) -> Claim:
        """The right to run what there is of that name, still to be taken."""
        self.path(name)
        self._make()
        return Claim(self.folder / f".{name}.run", f"{self.kind} {name}")

    def held_by(self, name: str) -> int | None:
        """The process that runs it, if one does: what is under way and held by none was left behind by a crash."""
        return held_by(self.path(name).with_name(f".{name}.run"))

    def _make(self) -> None:
        try:
            check_folder(self.folder)
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise BadState(f"{self.kind}s can't be kept: {error.strerror or error}") from None
        ignore_state(self.folder.parent)
