"""Compiled code by source: made in guests, loaded only in guests; to the host it is base64 text."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict

BASE64 = re.compile(rb"[A-Za-z0-9+/]+={0,2}")


class CodeCache:
    """The most recently used codes, up to a number of bytes. Thread-safe."""

    def __init__(self, most_bytes: int = 32 << 20) -> None:
        self._codes: OrderedDict[bytes, bytes] = OrderedDict()
        self._size = 0
        self._most = most_bytes
        self._lock = threading.Lock()

    def get(self, key: bytes) -> bytes | None:
        with self._lock:
            code = self._codes.get(key)
            if code is not None:
                self._codes.move_to_end(key)
            return code

    def put(self, key: bytes, code: bytes) -> None:
        if len(code) > self._most // 8 or not BASE64.fullmatch(code):
            return
        with self._lock:
            if key not in self._codes:
                self._codes[key] = code
                self._size += len(code)
            while self._size > self._most:
                self._size -= len(self._codes.popitem(last=False)[1])
