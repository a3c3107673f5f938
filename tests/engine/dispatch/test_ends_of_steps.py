"""The end of a step is synced with the start of the next: on disk before that begins, and before anybody is told."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from go_ent.engine import Event, RunRequest, StorageFailed, parse_plan
from go_ent.engine.dispatch import execution_context
from tests.support.scripted import Scripted, engine_of, says

SIZE = 6
CHAIN = {
    "task": [
        {"id": f"t{number}", "command": ["true"], "depends_on": [f"t{number - 1}"] if number else []}
        for number in range(SIZE)
    ]
}


class Disk:
    """What of the journal is on disk, as far as syncs say."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced, self.syncs = "", 0
        self.fails_with: str | None = None  # once this is in the journal, it can't be synced
        self._sync = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", self._look)

    def _look(self, handle: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if path.name == "journal.jsonl":
            text = path.read_text()
            if self.fails_with is not None and self.fails_with in text:
                raise OSError(errno.EIO, "the disk is gone")
            self.synced, self.syncs = text, self.syncs + 1
        self._sync(handle)

    def has_end_of(self, step: str) -> bool:
        return any('"step_finished"' in line and f'"{step}"' in line for line in self.synced.splitlines())


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    monkeypatch.setattr(execution_context, "LINGER_S", 60.0)  # nothing is synced but with something else
    return Disk(monkeypatch)


class TestChain:
    async def test_each_end_is_on_disk_before_the_next_step_begins_and_before_it_is_told(
        self, project: Path, disk: Disk
    ) -> None:
        begun: list[tuple[str, bool]] = []
        told: list[tuple[str | None, str, bool]] = []

        def answer(request: RunRequest) -> dict[str, Any]:
            begun.append((request.task_id, all(disk.has_end_of(step) for step, _ in begun)))
            return says()(request)

        def hear(event: Event) -> None:
            if event.kind == "step":
                told.append((event.task_id, event.data["status"], disk.has_end_of(str(event.task_id))))

        async with engine_of(project, Scripted("cli", answer, family="cli")) as engine:
            result = await engine.execute(parse_plan(CHAIN), on_event=hear)
        assert result.ok
        steps = [f"t{number}" for number in range(SIZE)]
        assert begun == [(step, True) for step in steps]
        assert told == [(step, *rest) for step in steps for rest in (("running", False), ("completed", True))]
        assert disk.syncs <= SIZE + 4  # once a step, and the execution's own

    async def test_an_end_that_can_not_be_synced_lets_nothing_more_begin(self, project: Path, disk: Disk) -> None:
        disk.fails_with = '"step_finished"'
        runner = Scripted("cli", family="cli")
        async with engine_of(project, runner) as engine:
            with pytest.raises(StorageFailed, match="the disk is gone"):
                await engine.execute(parse_plan(CHAIN))
        assert [request.task_id for request in runner.seen] == ["t0"]
