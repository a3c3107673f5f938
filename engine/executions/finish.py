"""What is done when an execution has ended, or rests: it is added to the totals, and old ones are removed."""

from __future__ import annotations

import logging
from collections.abc import Callable

from go_ent.engine.core.config import RetentionConfig
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.retention import Retention
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.executions.tape import Tally
from go_ent.engine.executions.totals import calls_from, records_from

log = logging.getLogger("go_ent.engine")
PATIENCE_S = 2.0


class Ending:
    """Of one project. It never fails what has ended. `note` and `close` block: call them in a thread."""

    def __init__(self, store: ExecutionStore, config: Callable[[], RetentionConfig]) -> None:
        self._store = store
        self._config = config
        self._retention: Retention | None = None

    def note(self, held: OwnedExecution, tally: Tally | None = None) -> None:
        """Add up what an execution, which this process still holds, has come to so far. Calls that were not counted
        are in its journal.
        """
        try:
            state = held.state
            calls = tally.totals() if tally is not None else calls_from(held.records()) if state.calls else {}
            self._store.index.note(state.id, records_from(state), calls)
            self.tidy()
        except Exception as error:
            log.warning("execution %s is not in the totals: %s", held.id, error)

    def tidy(self) -> None:
        """Begin to remove old executions, if it is time to. Does not block."""
        if self._retention is None:
            self._retention = Retention(self._store, self._config())
        self._retention.maybe()

    def close(self) -> None:
        """Give the removal that is under way a little time, and let go of the index."""
        if self._retention is not None:
            self._retention.wait(PATIENCE_S)
        self._store.close()
