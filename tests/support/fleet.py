"""A fleet's storages for tests: each stands for a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from go_ent.engine.fleet.database import Address
from go_ent.engine.fleet.execution_storage import PostgresStorage


@contextmanager
def storages(address: Address) -> Iterator[Callable[[], PostgresStorage]]:
    """Opens as many as are wanted; all are closed at the end."""
    opened: list[PostgresStorage] = []

    def another() -> PostgresStorage:
        opened.append(PostgresStorage(address))
        return opened[-1]

    yield another
    for one in opened:
        one.close()
