"""Compiled code by source: made in guests, loaded only in guests; to the host it is text, kept as JSON.

A guest that is given compiled code runs it as it is, so it must come from where nobody could forge it: from workers
that compile and do nothing else. They never run any code, and none that does is believed.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict

from pydantic_core import to_json

BASE64 = re.compile(rb"[A-Za-z0-9+/]+={0,2}")  # what Python is compiled to
MAX_SEEN = 10_000


class CodeCache:
    """The most recently used codes, up to a number of bytes. Thread-safe."""

    def __init__(self, most_bytes: int = 32 << 20) -> None:
        self._codes: OrderedDict[bytes, bytes] = OrderedDict()
        self._seen: OrderedDict[bytes, bool] = OrderedDict()  # and whether it was wanted already
        self._size = 0
        self._most = most_bytes
        self._lock = threading.Lock()

    def get(self, key: bytes) -> bytes | None:
        with self._lock:
            code = self._codes.get(key)
            if code is not None:
                self._codes.move_to_end(key)
            return code

    def wanted(self, key: bytes) -> bool:
        """Whether it is time to compile a source that is not here: when it comes for the second time. Most come only
        once.
        """
        with self._lock:
            tried = self._seen.get(key)
            self._seen[key] = tried is not None
            self._seen.move_to_end(key)
            if len(self._seen) > MAX_SEEN:
                self._seen.popitem(last=False)
            return tried is False

    def put(self, key: bytes, code: bytes, language: str = "python") -> None:
        """Keep what a guest gave; what is not the text that it should be is dropped."""
        if len(code) > self._most // 8 or (language == "python" and not BASE64.fullmatch(code)):
            return
        try:
            code = b'"%b"' % code if language == "python" else to_json(code.decode())
        except UnicodeDecodeError:
            return
        with self._lock:
            if key not in self._codes:
                self._codes[key] = code
                self._size += len(code)
            while self._size > self._most:
                evicted, text = self._codes.popitem(last=False)
                self._size -= len(text)
                self._seen.pop(evicted, None)
