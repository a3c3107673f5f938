"""Which names may have been meant by one that is not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MAX_NAME = 128  # what is longer than a name can be is like nothing
MOST_COMPARED = 1000


def alike(name: str, other: str) -> float:
    """How much two names are alike, from 0 to 1."""
    if len(name) > MAX_NAME or len(other) > MAX_NAME:
        return 0.0
    return difflib.SequenceMatcher(None, name, other).ratio()


def near(name: str, known: Iterable[str], most: int = 1, least: float = 0.6) -> list[str]:
    """Those of the *known* names that are at least so much like *name*, the most alike first."""
    if len(name) > MAX_NAME:
        return []
    candidates = [other for other in known if len(other) <= MAX_NAME][:MOST_COMPARED]
    return difflib.get_close_matches(name, candidates, most, least)


def did_you_mean(names: Iterable[str]) -> str:
    """The end of a message about a name that is not there: what may have been meant, if anything."""
    meant = " or ".join(names)
    return f"; did you mean {meant}?" if meant else ""
