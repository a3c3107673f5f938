"""Executions in files, for tests that look at the files, or break them."""

from __future__ import annotations

from pathlib import Path

from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.storage.file_storage import FileStorage
from go_ent.engine.storage.index import Index


class FileStore(ExecutionStore):
    """The executions of a project, with what they are in."""

    def __init__(self, project: Path) -> None:
        self.files = FileStorage(project)
        super().__init__(self.files)
        self.folder, self.packed, self.commits = self.files.folder, self.files.packed, self.files.commits

    @property
    def index(self) -> Index:
        return self.files.index


def files_of(store: ExecutionStore) -> FileStorage:
    assert isinstance(store.storage, FileStorage)
    return store.storage


def folder_of(held: OwnedExecution) -> Path:
    """The folder of an execution, which is made if there is none yet."""
    held.place()
    return Path(held.slot.where)
