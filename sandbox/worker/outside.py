"""Reading JSON that came from outside: bounded before it is parsed, and never for long at a time.

A parser in C keeps every other thread waiting, the event loop's too, for as long as one call of it takes. So what it is
given is bounded in values, not only in bytes: 4 MB of text take it a millisecond, 4 MB of `{},` a hundred.
"""

from __future__ import annotations

import gc
import json.decoder
import json.scanner
from typing import Any

from pydantic_core import from_json

LARGE = 1 << 16
MANY = 100_000  # values that are parsed in one go, in some milliseconds
MARKS, DIGITS = b",[{", b"0123456789"  # each value but the first stands behind a mark
DIGITS_EACH = 50  # that values may have on average: numbers of thousands of digits take long to read
MAX_DEPTH = 200


def parse(data: bytes | bytearray, most: int | None) -> Any:
    """The value of *data*; ValueError if it is longer than *most* bytes, nests too deep or is not JSON."""
    if most is not None and len(data) > most:
        raise ValueError(f"{len(data)} bytes; at most {most} are accepted")
    if len(data) < LARGE or not gc.isenabled():
        return from_json(data)
    # A million small containers would start the collector hundreds of times, each time over all of them.
    gc.disable()
    try:
        return from_json(data)
    finally:
        gc.enable()


def holds_at_most(data: bytes | bytearray, values: int) -> bool:
    """Whether JSON is of about that many values or fewer, found out without building any of them.

    What is not JSON may be taken for less than it is, but no parser gets past the place where it is none.
    """
    if len(data) <= values or _count(data, MARKS + DIGITS) <= values:
        return True
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")  # now each quote begins a text or ends one
    if data.count(b'"') > 4 * values:  # keys are texts too
        return False
    plain = b"".join(data.split(b'"')[::2])
    return _count(plain, MARKS) <= values and _count(plain, DIGITS) <= values * DIGITS_EACH


def _count(data: bytes | bytearray, characters: bytes) -> int:
    return len(data) - len(data.translate(None, characters))


def parse_gently(data: bytes | bytearray, most: int | None) -> Any:
    """`parse`, for a thread: JSON of very many values is read in Python, which lets others run in between."""
    if most is not None and len(data) > most:
        raise ValueError(f"{len(data)} bytes; at most {most} are accepted")
    if holds_at_most(data, MANY):
        return parse(data, None)
    if b"\\ud" in data.replace(b"\\\\", b"").lower():  # our guests write characters, not halves of them
        raise ValueError("characters written as two escapes")
    try:
        return _Gentle().decode(data.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deep") from None


class _Gentle(json.decoder.JSONDecoder):
    """The library's decoder, with the parts of it that are written in Python."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0
        arrays, objects = json.decoder.JSONArray, json.decoder.JSONObject  # type: ignore[attr-defined]
        self.parse_array = lambda *given: self._deeper(arrays, given)
        self.parse_object = lambda *given: self._deeper(objects, given)
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]

    def _deeper(self, read: Any, given: tuple[Any, ...]) -> Any:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError("nested too deep")
        found = read(*given)
        self._depth -= 1
        return found
