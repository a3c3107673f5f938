"""Ids of executions: UUIDs of version 7, which sort by the time they were made."""

from __future__ import annotations

import os
import re
import threading
import time
import uuid

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
PREFIX = re.compile(r"[0-9a-f-]{4,36}")
_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """An id greater than all that this process has made before, also when the clock goes back."""
    global _last  # noqa: PLW0603
    with _lock:
        # 48 bits of milliseconds and 12 of their fraction, never the same twice.
        _last = max(_last + 1, (time.time_ns() << 12) // 1_000_000)
        stamp = _last
    bits = (
        (stamp >> 12 & (1 << 48) - 1) << 80
        | 7 << 76
        | (stamp & 0xFFF) << 64
        | 2 << 62
        | int.from_bytes(os.urandom(8)) >> 2
    )
    return str(uuid.UUID(int=bits))
