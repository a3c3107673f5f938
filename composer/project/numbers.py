"""Numbers in text from outside: in the digits 0 to 9 alone. `int`, `str.isdigit` and `\\d` take those of every
script.
"""

from __future__ import annotations

import re

MOST = 18  # digits: fewer than what a 64-bit number may have
DIGITS = frozenset("0123456789")
_WHOLE = re.compile(r"[0-9]+")


def whole(text: str, most: int = MOST) -> int | None:
    """The whole number that *text* is, of at most *most* digits; None if it is none."""
    return int(text) if len(text) <= most and _WHOLE.fullmatch(text) else None
