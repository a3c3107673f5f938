"""Which executions are kept, and which are removed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import field

from go_ent.dataclass import dataclass
from go_ent.engine.core.config import RetentionConfig
from go_ent.engine.executions.storage import Row
from go_ent.engine.executions.store import ExecutionStore

log = logging.getLogger("go_ent.engine")
EVERY_S = 3600.0


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed, or would be."""

    removed: list[str]
    bytes: int
    kept_resumable: int  # that would have gone, but can be resumed, or an execution that can be resumed needs them
    failed: dict[str, str] = field(default_factory=dict)  # that could not be removed, and why


def prune(
    store: ExecutionStore,
    *,
    keep: int | None = None,
    older_than_s: float | None = None,
    max_bytes: int | None = None,
    resumable: bool = False,
    spare_s: float = 0.0,
    dry_run: bool = False,
) -> Pruned:
    """Remove executions, the oldest first: all but the *keep* newest, those not changed for *older_than_s*, and those
    beyond the newest *max_bytes*. What changed within *spare_s* stays.

    What can be resumed goes only with *resumable*, and never while a process owns it or its child can be resumed.
    """
    storage = store.storage
    store.flush()
    rows = list(storage.oldest())
    sizes = storage.sizes(rows) if max_bytes is not None else {}
    due = _due(rows, sizes, keep=keep, older_than_s=older_than_s, max_bytes=max_bytes, spare_s=spare_s)
    staying = [row for row in rows if row.resumable and (row.id not in due or not resumable or _owned(store, row.id))]
    needed = {row.id for row in staying} | _ancestors(rows, staying)
    doomed = [row for row in rows if row.id in due and row.id not in needed]
    failed: dict[str, str] = {}
    if dry_run:
        going = [row for row in doomed if not _owned(store, row.id)]
        sizes = sizes or storage.sizes(going)
        removed, freed = [row.id for row in going], sum(sizes[row.id] for row in going)
    else:
        removed, freed = storage.remove(doomed, failed, resumable=resumable)
    return Pruned(removed, freed, len(due & needed), failed)


class Retention:
    """Prunes by itself, as the project's `[executions]` says: now and then, in a thread, and without failing
    anybody.
    """

    def __init__(self, store: ExecutionStore, config: RetentionConfig) -> None:
        self._store, self._config = store, config
        self._next = 0.0
        self._thread: threading.Thread | None = None

    def maybe(self) -> threading.Thread | None:
        """Begin to prune, if that was not done for an hour; the thread that does."""
        now = time.monotonic()
        if not self._config.auto or now < self._next:
            return None
        self._next = now + EVERY_S
        thread = threading.Thread(target=self._prune, name="prune executions", daemon=True)
        thread.start()
        self._thread = thread  # once it runs: who waits for it may be another thread
        return thread

    def wait(self, seconds: float) -> None:
        """Give what was begun that much time. What it does not get done, the next one does."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _prune(self) -> None:
        try:
            with self._store.storage.turn_to_prune(EVERY_S) as due:
                if due:
                    limits = self._config
                    prune(
                        self._store,
                        keep=limits.keep,
                        older_than_s=limits.days * 86400,
                        max_bytes=limits.max_mb << 20,
                        spare_s=EVERY_S,
                    )
        except Exception as error:
            log.warning("old executions could not be removed: %s", error)


def _due(
    rows: list[Row],
    sizes: Mapping[str, int],
    *,
    keep: int | None,
    older_than_s: float | None,
    max_bytes: int | None,
    spare_s: float,
) -> set[str]:
    """Those that a limit is against. Counted from the newest: what is new never makes room for what is old and must
    stay.
    """
    now = time.time()
    total = 0
    due = set()
    for place, row in enumerate(reversed(rows)):
        total += sizes.get(row.id, 0)
        age = now - row.updated
        too_many = keep is not None and place >= keep
        too_old = older_than_s is not None and age > older_than_s
        too_much = max_bytes is not None and total > max_bytes
        if (too_many or too_old or too_much) and age >= spare_s:
            due.add(row.id)
    return due


def _ancestors(rows: list[Row], of: Iterable[Row]) -> set[str]:
    parents = {row.id: row.parent for row in rows}
    found: set[str] = set()
    for row in of:
        parent = row.parent
        while parent is not None and parent not in found:
            found.add(parent)
            parent = parents.get(parent)
    return found


def _owned(store: ExecutionStore, execution_id: str) -> bool:
    try:
        return store.is_held(execution_id)
    except OSError:  # it is nothing that can be owned
        return False
