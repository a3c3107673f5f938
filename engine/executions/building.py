"""A state made of what there is of it: its file, the records of its journal, or both."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from go_ent.composer.project.files import read_bounded
from go_ent.engine.core.errors import BadState, TooNew, Unborn
from go_ent.engine.executions.apply_records import applied, with_damage
from go_ent.engine.executions.state import ExecutionState, state_from, unpack
from go_ent.engine.storage.marks import Mark
from go_ent.engine.storage.records import Record

MAX_STATE = 64 << 20


class StateBuilder:
    """Makes the state of an execution of its file, if it has a usable one, and of its journal's records."""

    def __init__(self, execution_id: str, where: str, file: Path | None = None) -> None:
        """*where* is what messages call the place that it is read from."""
        self.state: ExecutionState | None = None
        self._id, self._where = execution_id, where
        self._problem = f"{where} holds no execution"
        self._begun = file is not None and file.exists()
        if file is None:
            return
        try:
            self.state = unpack(read_bounded(file, MAX_STATE), str(file))
        except FileNotFoundError:
            pass
        except TooNew:
            raise
        except (BadState, OSError) as error:
            self._problem = str(error)
        if self.state is not None:
            self._check(self.state)

    def known(self, mark: Mark | None) -> int:
        """The number of the last record that was there, as far as the state's file and the index know: before any is
        added.
        """
        return max(0 if self.state is None else self.state.seq, 0 if mark is None else mark.seq)

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
