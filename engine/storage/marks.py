"""How far a journal was known to be on disk: kept in the index, so that one which was cut, or replaced by an older
copy, is noticed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field, ValidationError

from go_ent.engine.core.models import Model
from go_ent.engine.storage.records import open_journal

CHUNK = 1 << 20
DIGEST_BYTES = 16
COLUMNS = ("seq", "size", "digest")
TABLES = MappingProxyType(
    {
        "marks": (
            "CREATE TABLE marks (id TEXT PRIMARY KEY, seq INTEGER NOT NULL, size INTEGER NOT NULL, digest TEXT "
            "NOT NULL) "
            "STRICT, WITHOUT ROWID"
        )
    }
)
# Who comes late changes nothing: the records of one journal are numbered upwards, whatever happens to it.
PUT = (
    "INSERT INTO marks (id, seq, size, digest) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
    "seq = excluded.seq, size = excluded.size, digest = excluded.digest WHERE excluded.seq > seq"
)
GET = "SELECT seq, size, digest FROM marks WHERE id = ?"


class Mark(Model):
    """The last record that was synced, where it ends, and the digest of all bytes up to there."""

    seq: Annotated[int, Field(ge=0)]
    size: Annotated[int, Field(ge=0)]
    digest: str

    @classmethod
    def of(cls, row: tuple[Any, ...] | None) -> Mark | None:
        """From a row of the index, which may hold what nobody of us wrote."""
        try:
            return None if row is None else cls(**dict(zip(COLUMNS, row, strict=True)))
        except (ValidationError, ValueError):
            return None


def new_digest() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=DIGEST_BYTES)


def digest_of(path: Path, size: int) -> hashlib.blake2b | None:
    """The digest of the first bytes of a journal; None if it has fewer."""
    digest, left = new_digest(), size
    file = open_journal(path)
    if file is None:
        return digest if size == 0 else None
    with file:
        while left and (piece := file.read(min(left, CHUNK))):
            digest.update(piece)
            left -= len(piece)
    return None if left else digest


def is_changed(path: Path, mark: Mark) -> bool:
    """Whether a journal has other bytes where it was synced."""
    digest = digest_of(path, mark.size)
    return digest is None or digest.hexdigest() != mark.digest


def changed(seq: int) -> dict[str, Any]:
    """What a note says of a journal with other records than those that were synced."""
    return {"text": f"the journal up to record {seq} is not what was written", "lost": []}
