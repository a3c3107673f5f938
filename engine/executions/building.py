"""A state made of what there is of it: a copy that was saved, its records, or both."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from pydantic import ValidationError

from go_ent.engine.core.errors import BadState, Unborn
from go_ent.engine.executions.apply_records import applied, with_damage
from go_ent.engine.executions.state import ExecutionState, state_from
from go_ent.engine.executions.storage import Record


class StateBuilder:
    """Makes the state of an execution of a copy, if there is a usable one, and of its records."""

    def __init__(
        self,
        execution_id: str,
        where: str,
        copy: ExecutionState | None = None,
        *,
        problem: str | None = None,
        begun: bool = False,
    ) -> None:
        """*where* is what messages call the place that it is read from. *problem* is what is wrong with a copy that
        can't be used; *begun* is whether there is any.
        """
        self.state = copy
        self._id, self._where = execution_id, where
        self._problem = problem or f"{where} holds no execution"
        self._begun = begun
        if copy is not None:
            self._check(copy)

    def add_all(self, records: Iterable[Record]) -> ExecutionState:
        """The state after all of *records*."""
        for record in records:
            self.add(record)
        return self.result()

    def add(self, record: Record) -> None:
        self._begun = self._begun or record["kind"] != "note"
        if self.state is None:
            if record["kind"] == "created":
                self._begin(record)
        elif record["seq"] > self.state.seq:
            try:
                self.state = applied(self.state, record)
            except BadState as error:  # one such record does not make the others unreadable
                self.state = with_damage(self.state.model_copy(update={"seq": record["seq"]}), str(error)[:1000])
        elif record["kind"] == "note" and "lost" in record:  # the state was written before the journal was mended
            self.state = with_damage(self.state, str(record.get("text"))[:1000])

    def _begin(self, record: Record) -> None:
        where = f"{self._where}, record {record['seq']},"
        with contextlib.suppress(ValidationError, ValueError, RecursionError):
            state = state_from(record.get("state"), where)
            self._check(state)
            self.state = state.model_copy(update={"seq": record["seq"], "offset": 0})

    def _check(self, state: ExecutionState) -> None:
        if state.id != self._id:
            raise BadState(f"{self._where} holds another execution: {state.id[:40]!r}")

    def result(self) -> ExecutionState:
        if self.state is None:
            raise (BadState if self._begun else Unborn)(f"{self._problem}, and its journal does not tell how it began")
        return self.state
