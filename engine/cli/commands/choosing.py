"""Which execution is meant: an id, its short form or its start; `last`, `last-1`, `last:failed`; or none given."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Annotated

from cyclopts import Parameter

from go_ent.composer.project.files import find_project
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.terminal.completion_values import execution_ids
from go_ent.engine.cli.terminal.output import is_rich, say, short
from go_ent.engine.cli.terminal.tables import console, fitted
from go_ent.engine.core.ids import made_at, short_id
from go_ent.engine.executions.state import TRANSITIONS
from go_ent.engine.executions.storage import Row
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.storages import open_store
from go_ent.sandbox.messages.near_names import did_you_mean, near

HELP = "The execution: its short id, last, last-1 or last:failed."
Id = Annotated[str, Parameter(help=HELP, completer=execution_ids)]
OptionalId = Annotated[str | None, Parameter(help=f"{HELP} By default the last.", completer=execution_ids)]
LAST = re.compile(r"last(?::([a-z]+))?(?:-([0-9]{1,4}))?")
PAGE = 200
Wanted = Callable[[Row], bool]


def meant(text: str, store: ExecutionStore | None = None) -> str:
    """The id of the execution that somebody has typed."""
    store = store or open_store(find_project("."))
    if not text.startswith("last"):
        return store.find(text.strip())
    said = LAST.fullmatch(text)
    if said is None or (said[1] and said[1] not in TRANSITIONS):
        hint = did_you_mean(near(said[1], TRANSITIONS)) if said is not None and said[1] else ""
        raise UsageError(f"{text[:40]!r} is no execution{hint}: use last, last-1, last:failed, or an id of go-ent ps")
    found = _nth(store, lambda row: said[1] is None or row.status == said[1], int(said[2] or 0))
    if found is None:
        which = f"{said[1]} " if said[1] else ""
        raise UsageError(f"there is no {text}: fewer {which}executions are on record here; go-ent ps lists them")
    return found.id


def meant_or_last(text: str | None, what: str = "", wanted: Wanted | None = None) -> tuple[ExecutionStore, str]:
    """The execution that was typed, or else the last one, which is said. *wanted* are those that it can be, *what* is
    what they are.
    """
    store = open_store(find_project("."))
    if text is not None:
        return store, meant(text, store)
    found = _nth(store, wanted or (lambda row: True), 0)
    if found is None and wanted is not None and (newest := _nth(store, lambda row: True, 0)) is not None:
        raise UsageError(f"no execution {what}: the last, {short_id(newest.id)}, is {newest.status}")
    if found is None:
        raise UsageError("nothing was run here yet: try go-ent exec -c '1 + 1'")
    said = f"the last execution{f' that {what}' if what else ''}: {short_id(found.id)}"
    title = short(found.title)
    if is_rich(sys.stderr):
        title = fitted(title, max(1, console().width - len(said) - len(" ()")))
    say(f"{said} ({title})", err=True)
    return store, found.id


def _nth(store: ExecutionStore, wanted: Wanted, number: int) -> Row | None:
    """The last, or one before it, of those that somebody has begun: what they have begun themselves does not count."""
    for row in _newest(store):
        if row.parent is None and wanted(row):
            if not number:
                return row
            number -= 1
    return None


def _newest(store: ExecutionStore) -> Iterator[Row]:
    seen: set[str] = set()
    before: float | None = None
    while True:
        rows = [row for row in store.rows(limit=PAGE, before=before) if row.id not in seen]
        yield from rows
        if not rows:
            return
        seen.update(row.id for row in rows)
        before = made_at(rows[-1].id) + 0.001  # others may be of the same millisecond
