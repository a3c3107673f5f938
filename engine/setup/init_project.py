"""A project's beginning: its folder, its settings, its first tool. What is there already stays as it is."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from go_ent.composer import Composer, ComposerError
from go_ent.composer.composed.store import Store
from go_ent.composer.errors import StoreError
from go_ent.composer.project.files import IGNORED, STATE, find_project, ignore_state, locked, read_bounded, write_new
from go_ent.dataclass import dataclass
from go_ent.engine.settings.schema import SCHEMA_FILE, schema
from go_ent.engine.settings.template import first_config
from go_ent.sandbox import SandboxError

PATIENCE_S = 30.0
TOOLS = "composed-tools"
FIRST = "count_words"
FIRST_TOOL = '''\
# /// tool
# name = "count_words"
# ///
# /// examples
# {"inputs": {"text": "To be, or not to be", "top": 2}, "result": [{"word": "be", "count": 2}, {"word": "to", "count": 2}]}
# {"inputs": {"text": ""}, "result": []}
# ///
import re
from collections import Counter
from typing import TypedDict


class WordCount(TypedDict):
    """A word and how often it is there."""

    word: str
    count: int


def count_words(text: str, top: int = 10) -> list[WordCount]:
    """Count the words of a text, the most frequent first.

    Small and large letters are the same; words that are equally frequent are in alphabetical order.

    Args:
        text: Any text.
        top: How many words to return.
    """
    counts = Counter(re.findall(r"[^\\W_]+(?:'[^\\W_]+)*", text.lower()))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"word": word, "count": count} for word, count in ranked[: max(top, 0)]]
'''  # noqa: E501


@dataclass(slots=True)
class Begun:
    """What was made, what was there, and what could not be made, by their paths in the project."""

    project: Path
    made: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def begin_files(folder: Path) -> Begun:
    """Make the folder, if it must be, and the files of a project in it. `StoreError` says what is in the way."""
    folder = Path(os.path.abspath(folder))
    begun = Begun(folder)
    state = folder / STATE
    with _explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        outer = find_project(folder)
        if outer != folder.resolve():
            begun.notes.append(f"this is a project within another one, {outer}: from here on down, this one is used")
        _make_state(state)
        if ignore_state(state):
            begun.made.append(f"{STATE}/.gitignore")
        with locked(state / ".lock", patience_s=PATIENCE_S):
            _add_ignored(state / ".gitignore", begun)
            _create(state / "config.toml", first_config().encode(), begun)
            _create(state / SCHEMA_FILE, schema_text().encode(), begun)
    if f"{STATE}/{SCHEMA_FILE}" in begun.kept and _differs(state / SCHEMA_FILE):
        renew = f"go-ent config schema > {STATE}/{SCHEMA_FILE}"
        begun.notes.append(
            f"{STATE}/{SCHEMA_FILE} is of another version of go-ent, or was changed: `{renew}` makes it anew"
        )
    return begun


async def begin_tools(begun: Begun) -> None:
    """Save a first composed tool, as anybody would: checked, its examples run. A project that has or had tools needs
    none.
    """
    store = Store(begun.project / STATE / TOOLS, "project")
    path = f"{STATE}/{TOOLS}/{FIRST}.py"
    if store.folder.is_symlink():
        begun.failed[path] = f"{STATE}/{TOOLS} is a link: init writes into a folder only"
        return
    try:
        if store.scan() or store.versions(FIRST):
            begun.kept.append(f"{STATE}/{TOOLS}")
            return
        composer = await asyncio.to_thread(Composer, begun.project, trusted=False, workers=1)
        async with composer:
            saved = await composer.compose(FIRST_TOOL)
        (begun.made if saved.created else begun.kept).append(path)
    except (ComposerError, SandboxError, OSError) as error:
        begun.failed[path] = str(error)


def schema_text() -> str:
    """The JSON schema, as its file has it."""
    return json.dumps(schema(), indent=1) + "\n"


@contextlib.contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{error.filename or folder} can't be written: {error.strerror or error}; choose another folder, "
            "or change its mode"
        ) from None


def _make_state(state: Path) -> None:
    """Not through a link, which could lead anywhere."""
    with contextlib.suppress(FileExistsError):
        state.mkdir()
    mode = state.lstat().st_mode
    if stat.S_ISLNK(mode):
        raise StoreError(
            f"{state} is a link: init writes into a folder only; remove it, or go to where it leads and start there"
        )
    if not stat.S_ISDIR(mode):
        raise StoreError(f"{state} is a file, and a folder is needed there: move it away")


def _add_ignored(path: Path, begun: Begun) -> None:
    """The lines that are missing. A file that can't be read as one is left alone."""
    name = f"{STATE}/{path.name}"
    if name in begun.made:
        return
    try:
        there = read_bounded(path, 1 << 20).decode("utf-8", "replace")
    except OSError as error:
        begun.failed[name] = f"it can't be read: {error.strerror or error}"
        return
    missing = [line for line in IGNORED if line not in there.splitlines()]
    if not missing:
        begun.kept.append(name)
        return
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(handle, "ab") as file:
        file.write(
            ("" if not there or there.endswith("\n") else "\n").encode()
            + "".join(f"{line}\n" for line in missing).encode()
        )
    begun.made.append(name)


def _create(path: Path, data: bytes, begun: Begun) -> None:
    """Write a file wholly, and only if nothing is there, not even a link that leads nowhere."""
    name = f"{STATE}/{path.name}"
    try:
        write_new(path, data)
        begun.made.append(name)
    except FileExistsError:
        begun.kept.append(name)


def _differs(path: Path) -> bool:
    try:
        return read_bounded(path, 4 << 20) != schema_text().encode()
    except OSError:
        return True
