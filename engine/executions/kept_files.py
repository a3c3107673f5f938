"""The files that the runs of an execution left, kept beside it, so that they can be read later.

Their content is an attachment, called by its digest; their names are in the journal, and never the name of anything on
disk. A file of a plan's step or of a line of `--each` is called `STEP/NAME`, one of a single run `NAME`.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from go_ent.engine.core.errors import ExecutionNotFound, StorageFailed
from go_ent.engine.core.models import Model
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.storage import Record
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.executions.undo import standing
from go_ent.sandbox.media.kinds import UNKNOWN, Media, mime_type_of
from go_ent.sandbox.messages.near_names import did_you_mean, near

KIND = "files"  # of records, and of attachments
MOST_FILES = 100  # of one run
MOST_IN_ALL = 1000  # of an execution
MOST_BYTES = 64 << 20  # of an execution
NOT_KEPT = "not all of its files are kept"
TOO_MUCH = (
    f"{NOT_KEPT}: at most {MOST_FILES} of a run, and {MOST_IN_ALL:,} and {MOST_BYTES >> 20} MB of an execution, are"
)


class KeptFile(Model):
    """A file that a run left."""

    name: Annotated[str, Field(max_length=255)]
    size: Annotated[int, Field(ge=0, le=MOST_BYTES)]
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    mime_type: Annotated[str, Field(max_length=100, pattern="^[a-z0-9./+-]+$")] = UNKNOWN
    step: str = ""  # the step, or the number of the line, whose run left it; "": the execution is one run

    @property
    def path(self) -> str:
        """What it is called in its execution."""
        return f"{self.step}/{self.name}" if self.step else self.name


_KEPT: TypeAdapter[list[KeptFile]] = TypeAdapter(
    Annotated[list[KeptFile], Field(max_length=MOST_FILES)], config=ConfigDict(defer_build=True)
)


class FileKeeper:
    """Keeps the files of an execution that this process owns, within what one execution may have. Thread-safe."""

    def __init__(self, held: OwnedExecution) -> None:
        self._held = held
        self._lock = threading.Lock()
        self._steps: dict[str, list[KeptFile]] | None = None  # read when there is a file to keep

    @property
    def count(self) -> int:
        """How many are kept, of those that this process knows of."""
        return sum(len(files) for files in (self._steps or {}).values())

    def keep(self, files: Mapping[str, bytes], step: str = "") -> str | None:
        """Keep the files of a run that has ended; what of them is not kept, for people. Blocks.

        A step that runs again leaves its files in place of those before.
        """
        with self._lock:
            try:
                return self._keep(files, step)
            except OSError as error:
                return f"{NOT_KEPT}: {error.strerror or error}"

    def _keep(self, files: Mapping[str, bytes], step: str) -> str | None:
        attachments = self._held.attachments(KIND)
        attachments.prepare()
        if self._steps is None:
            self._steps = _by_step(self._held.standing())
        others = [file for name, kept in self._steps.items() if name != step for file in kept]
        room, most = MOST_BYTES - sum(file.size for file in others), min(MOST_FILES, MOST_IN_ALL - len(others))
        kept: list[KeptFile] = []
        problem = None
        try:
            for name, data in files.items():
                if len(kept) >= most or len(data) > room:
                    problem = TOO_MUCH
                    continue
                digest, kind = hashlib.sha256(data).hexdigest(), mime_type_of(data, name)
                with contextlib.suppress(FileExistsError):
                    attachments.add(digest, data)
                room -= len(data)
                kept.append(KeptFile(name=name, size=len(data), digest=digest, mime_type=kind, step=step))
        except OSError as error:
            problem = f"{NOT_KEPT}: {error.strerror or error}"
        if kept or step in self._steps:
            self._held.append(KIND, {"step": step, "files": [file.model_dump(exclude={"step"}) for file in kept]})
            self._steps[step] = kept
        return problem


def kept_files(store: ExecutionStore, execution_id: str) -> list[KeptFile]:
    """The files that the runs of an execution left, each step's from its last run. Blocks."""
    return files_of(standing(store.records(execution_id), store.load(execution_id).undone))


def files_of(records: Iterable[Record]) -> list[KeptFile]:
    """The files that some records tell of, each step's from the last that does."""
    return [file for files in _by_step(records).values() for file in files]


def _by_step(records: Iterable[Record]) -> dict[str, list[KeptFile]]:
    found: dict[str, list[KeptFile]] = {}
    for record in records:
        if record["kind"] == KIND:
            step = record.get("step", "")
            with contextlib.suppress(ValidationError):  # nothing that we wrote
                rows = _KEPT.validate_python(record.get("files"))
                found[str(step)] = [row.model_copy(update={"step": str(step)}) for row in rows]
    return found


def read_file(store: ExecutionStore, execution_id: str, path: str) -> Media:
    """A file of an execution, by its path. `ExecutionNotFound` if it has none of that; `StorageFailed` if its content
    is not what it was. Blocks.
    """
    files = {file.path: file for file in kept_files(store, execution_id)}
    file = files.get(path)
    if file is None:
        hint = did_you_mean(near(path[:255], files, 3)) if files else "; it left none"
        raise ExecutionNotFound(f"execution {execution_id} has no file {path[:80]!r}{hint}")
    try:
        data = store.storage.attachments(execution_id, KIND).read(file.digest, file.size)
    except OSError as error:
        raise StorageFailed(f"the file {path[:80]!r} can't be read: {error.strerror or type(error).__name__}") from None
    if len(data) != file.size or hashlib.sha256(data).hexdigest() != file.digest:
        raise StorageFailed(f"the file {path[:80]!r} has been changed since the run left it")
    return Media(path, mime_type_of(data, file.name), data)
