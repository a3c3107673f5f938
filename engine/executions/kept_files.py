"""The files that a run left, kept beside its execution, so that they can be read later.

Their content is an attachment, called by its digest; their names are in the journal, and never the name of anything on
disk.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from go_ent.engine.core.errors import ExecutionNotFound, StorageFailed
from go_ent.engine.core.models import Model
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.store import ExecutionStore
from go_ent.sandbox.media.kinds import Media, mime_type_of
from go_ent.sandbox.messages.near_names import did_you_mean, near

KIND = "files"  # of records, and of attachments
MOST_FILES = 100
MOST_BYTES = 64 << 20
NOT_KEPT = "not all of its files are kept"


class KeptFile(Model):
    """A file that a run left."""

    name: Annotated[str, Field(max_length=255)]
    size: Annotated[int, Field(ge=0, le=MOST_BYTES)]
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


_KEPT: TypeAdapter[list[KeptFile]] = TypeAdapter(list[KeptFile])


def keep_files(held: OwnedExecution, files: Mapping[str, bytes]) -> str | None:
    """Keep the files of a run that has ended; what of them is not kept, for people. Blocks."""
    attachments, room = held.attachments(KIND), MOST_BYTES
    kept: list[KeptFile] = []
    problem = None
    try:
        attachments.prepare()
        for name, data in files.items():
            if len(kept) == MOST_FILES or len(data) > room:
                problem = f"{NOT_KEPT}: at most {MOST_FILES} of {MOST_BYTES >> 20} MB in all are"
                continue
            digest = hashlib.sha256(data).hexdigest()
            with contextlib.suppress(FileExistsError):
                attachments.add(digest, data)
            room -= len(data)
            kept.append(KeptFile(name=name, size=len(data), digest=digest))
    except OSError as error:
        problem = f"{NOT_KEPT}: {error.strerror or error}"
    if kept:
        held.append(KIND, {"files": [file.model_dump() for file in kept]})
    return problem


def kept_files(store: ExecutionStore, execution_id: str) -> list[KeptFile]:
    """The files that the last run of an execution left. Blocks."""
    found: Any = []
    for record in store.records(execution_id):
        if record["kind"] == KIND:
            found = record.get("files")
    try:
        return _KEPT.validate_python(found)
    except ValidationError:
        return []


def read_file(store: ExecutionStore, execution_id: str, name: str) -> Media:
    """A file of an execution. `ExecutionNotFound` if it has none of that name; `StorageFailed` if its content is not
    what it was. Blocks.
    """
    files = {file.name: file for file in kept_files(store, execution_id)}
    file = files.get(name)
    if file is None:
        hint = did_you_mean(near(name[:255], files, 3)) if files else "; it left none"
        raise ExecutionNotFound(f"execution {execution_id} has no file {name[:80]!r}{hint}")
    try:
        data = store.storage.attachments(execution_id, KIND).read(file.digest, file.size)
    except OSError as error:
        raise StorageFailed(f"the file {name[:80]!r} can't be read: {error.strerror or type(error).__name__}") from None
    if len(data) != file.size or hashlib.sha256(data).hexdigest() != file.digest:
        raise StorageFailed(f"the file {name[:80]!r} has been changed since the run left it")
    return Media(name, mime_type_of(data, name), data)
