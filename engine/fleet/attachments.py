"""What is kept beside an execution of a fleet."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from go_ent.dataclass import dataclass
from go_ent.engine.fleet.database import Database

MOST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class PostgresAttachments:
    """`Attachments` of one slot, of one kind."""

    database: Database
    slot: str
    kind: str

    @property
    def where(self) -> str:
        return f"{self.kind} of execution {self.slot} in the fleet"

    def names(self, most: int) -> list[str]:
        query = "select name from $.attachments where slot = %s and kind = %s order by name limit %s"
        return [name for (name,) in self.database.ask(query, (self.slot, self.kind, most + 1))]

    def read(self, name: str, most: int) -> bytes:
        query = "select substring(data for %s) from $.attachments where slot = %s and kind = %s and name = %s"
        rows = self.database.ask(query, (most + 1, self.slot, self.kind, name))
        if not rows:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return bytes(rows[0][0])

    def add(self, name: str, data: bytes) -> None:
        if len(data) > MOST_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
        query = "insert into $.attachments values (%s, %s, %s, %s) on conflict do nothing"
        if not self.database.tell(query, (self.slot, self.kind, name, data)):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)

    @contextmanager
    def alone(self) -> Iterator[None]:
        connection = self.database.connect()
        try:
            lock = "select pg_advisory_lock(hashtextextended(%s, 0))"
            connection.execute(lock.encode(), (f"{self.database.address.namespace} {self.slot} {self.kind}",))
            yield
        finally:
            connection.close()

    def prepare(self) -> None:
        """There is nothing to prepare."""
