"""Tests of many rows that are one test."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any


def each(names: str | tuple[str, ...], rows: Collection[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, in one test: for rows that take less time than a test does to be collected, begun
    and reported. It takes no fixture. What fails says with which row.
    """
    keys = (names,) if isinstance(names, str) else names

    def wrap(test: Callable[..., None]) -> Callable[..., None]:
        def run(*given: Any) -> None:
            assert rows
            for row in rows:
                values = (row,) if isinstance(names, str) else row
                try:
                    test(*given, **dict(zip(keys, values, strict=True)))
                except BaseException as error:
                    error.add_note(f"with {row!r:.1000}")
                    raise

        functools.update_wrapper(run, test)
        del run.__wrapped__  # type: ignore[attr-defined]  # of which pytest would take the arguments for fixtures
        return run

    return wrap
