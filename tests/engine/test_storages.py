"""What keeps a project's things is chosen in one place."""

from __future__ import annotations

import os
from pathlib import Path

from go_ent.composer.composed.store import composed_stores
from go_ent.engine import Engine, Task
from go_ent.engine.budget.sqlite_ledger import MemoryLedger
from go_ent.engine.storage.file_storage import FileStorage
from go_ent.engine.storage.memory import MemoryStorage
from go_ent.engine.storages import Storages, open_storages


def test_files_unless_told_otherwise(tmp_path: Path) -> None:
    kept = open_storages(tmp_path)
    assert isinstance(kept.executions, FileStorage)
    assert [store.scope for store in kept.tools] == ["project", "global"]
    assert os.listdir(tmp_path) == []  # nothing is made by opening them


async def test_an_engine_keeps_everything_where_it_is_told(tmp_path: Path) -> None:
    storages = Storages(MemoryStorage(), MemoryLedger(), composed_stores(tmp_path))
    async with Engine(tmp_path, storages=storages, trusted=True) as engine:
        done = await engine.execute(Task(command=("true",)))
        assert done.ok
        assert [row.status for row in await engine.executions()] == ["completed"]
    assert os.listdir(tmp_path) == []
