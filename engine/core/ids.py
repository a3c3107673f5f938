"""Ids of executions: UUIDs of version 7, which sort by the time they were made; people type their last eight
characters.
"""

from __future__ import annotations

import os
import re
import threading
import time

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
PREFIX = re.compile(r"[0-9a-f-]{4,36}")
TAIL = re.compile(r"[0-9a-f]{4,12}")  # the last group of an id, or the start of its short form
SHORT = 8
_lock = threading.Lock()
_last = 0


def short_id(execution_id: str) -> str:
    """What people type for an id: its end, which is random, where the start is the time. Anything else stays."""
    return execution_id[-SHORT:] if ID.fullmatch(execution_id) else execution_id


def made_at(execution_id: str) -> float:
    """When an id was made, to the millisecond."""
    return int(execution_id[:8] + execution_id[9:13], 16) / 1000


def is_meant(text: str, execution_id: str) -> bool:
    """Whether *text* stands for an id: its start, the start of its short form, or its end from there on."""
    if len(text) > SHORT and TAIL.fullmatch(text) and execution_id.endswith(text):
        return True
    return execution_id.startswith(text) or (len(text) <= SHORT and execution_id[-SHORT:].startswith(text))


def new_id() -> str:
    """An id greater than all that this process has made before, also when the clock goes back."""
    global _last  # noqa: PLW0603
    with _lock:
        # 48 bits of milliseconds and 12 of their fraction, never the same twice.
        _last = max(_last + 1, (time.time_ns() << 12) // 1_000_000)
        stamp = _last
    at, noise = f"{stamp >> 12 & (1 << 48) - 1:012x}", f"{2 << 62 | int.from_bytes(os.urandom(8)) >> 2:016x}"
    return f"{at[:8]}-{at[8:]}-7{stamp & 0xFFF:03x}-{noise[:4]}-{noise[4:]}"
