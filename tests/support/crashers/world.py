"""A project after its processes were killed, and how what it came to is judged: against an undisturbed run of the
same work.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from go_ent.engine.core.errors import BadState
from go_ent.engine.executions.storage import Row
from go_ent.engine.processes.trees import reap_now
from tests.support.crashers import work
from tests.support.executions import FileStore

TOKEN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass
class World:
    """A project, and what was done in it. It is looked at as a person would: by the store, the journal and the
    effects.
    """

    project: Path
    answered: dict[str, int] = field(
        default_factory=dict
    )  # effects of calls that had an answer, and how often they were there
    skipped: set[str] = field(default_factory=set)  # commands that were taken as done

    def lines(self, name: str = work.EFFECTS) -> list[str]:
        path = self.project / name
        return path.read_text().splitlines() if path.exists() else []

    @contextlib.contextmanager
    def store(self) -> Iterator[FileStore]:
        store = FileStore(self.project)
        try:
            yield store
        finally:
            store.close()

    def rows(self) -> list[Row]:
        with self.store() as store:
            return store.rows()

    def records(self, execution_id: str) -> list[dict[str, Any]]:
        with self.store() as store:
            return list(store.records(execution_id))

    def left(self, *also: str) -> work.Outcome | None:
        """What a process that was killed has left, at once; None if that is nothing to go on from.

        It is interrupted or completed; *also* is what it may be if it was not killed.
        """
        with self.store() as store:
            rows = store.rows()
            if not rows:
                return None
            assert rows[0].status in ("interrupted", "completed", *also), rows[0]
            if not any(record["kind"] == "created" for record in store.records(rows[0].id)):
                with pytest.raises(BadState, match="does not tell how it began"):
                    store.load(rows[0].id)
                return None
            left = work.outcome(store.load(rows[0].id))
        assert left["status"] == rows[0].status
        self.note(left["id"])
        return left

    def note(self, execution_id: str) -> None:
        """What was finished by now must not be done again."""
        calls = {}
        for record in self.records(execution_id):
            if record["kind"] == "call":
                calls[record["path"]] = effect_of(record)
            elif record["kind"] == "answer" and (effect := calls[record["path"]]) is not None:
                self.answered.setdefault(effect, self.lines().count(effect))

    def decide(self, execution_id: str) -> list[str]:
        """What a person says of calls and commands that were begun and have no end, after a look at whether they were
        done.

        What the process that was killed had started is ended first, as a resume that asks does: it might be done after
        the look.
        """
        begun, calls = set(), {}
        for record in self.records(execution_id):
            if record["kind"] == "call":
                calls[record["path"]] = effect_of(record)
            elif record["kind"] == "begun" and not record["retry"]:
                begun.add(record["path"])
            elif record["kind"] == "answer":
                begun.discard(record["path"])
        said = [f"{path}={'skip' if calls[path] in self.lines() else 'retry'}" for path in sorted(begun)]
        with self.store() as store:
            state = store.load(execution_id)
        steps = state.begun
        for step in steps:
            reap_now(f"{execution_id}/{step}/{state.tries[step]}")
        commands = self.lines(work.COMMANDS)
        self.skipped |= steps.keys() & set(commands)
        return said + [f"{step}={'skip' if step in commands else 'retry'}" for step in steps]


def effect_of(call: dict[str, Any]) -> str | None:
    """The line that a call leaves."""
    if not call["tool"].startswith("w."):
        return None
    positional, named = call["arguments"]
    return " ".join((call["tool"].removeprefix("w."), *map(str, (*positional, *named.values()))))


@dataclass(frozen=True)
class Whole:
    """An undisturbed run: what others have to come to. Tokens are made by each run of code for itself."""

    values: str
    marks: list[str]
    effects: list[str]
    commands: set[str]

    @classmethod
    def of(cls, world: World, done: work.Outcome) -> Whole:
        assert done["status"] == "completed"
        return cls(json.dumps(done["values"]), done["marks"], world.lines(), set(world.lines(work.COMMANDS)))

    def check(self, world: World, done: work.Outcome) -> None:
        """That it came to the same; that each effect is there, once if it must not be twice."""
        values = json.dumps(done["values"])
        expected = json.dumps(
            json.loads(self.values) | dict.fromkeys(world.skipped, "")
        )  # what they answered is not known
        tokens = dict(zip(TOKEN.findall(expected), TOKEN.findall(values), strict=True))

        def now(text: str) -> str:
            return TOKEN.sub(lambda found: tokens[found[0]], text)

        marks = list(dict.fromkeys(done["marks"]))  # that none is there twice is a test of its own
        assert (done["status"], values, marks) == ("completed", now(expected), self.marks)
        counts = Counter(world.lines())
        assert set(counts) == {now(line) for line in self.effects}
        assert [line for line, count in counts.items() if count > 1 and line.startswith("put")] == []
        assert {line: counts[line] for line in world.answered} == world.answered
        assert Counter(world.lines(work.COMMANDS)) == dict.fromkeys(self.commands, 1)
