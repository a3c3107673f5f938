"""How large a picture is, by its head: a few bytes are looked at, nothing is decoded."""

from __future__ import annotations

import struct

MOST_SIDE = 10_000  # pixels; a terminal decodes what it is sent, and a small file can say that it is huge
MOST_PIXELS = 16_000_000
MOST_SEGMENTS = 64  # of a JPEG, before the one that says its size
SCAN = b"\xda"  # the segment of a JPEG after which its pixels come
NO_FRAMES = b"\xc4\xc8\xcc"  # between those of frames, but other things


def size_of(data: bytes, mime_type: str) -> tuple[int, int] | None:
    """Width and height in pixels; None for what is no such picture, or one too large to be shown."""
    if mime_type == "image/png" and data[12:16] == b"IHDR" and len(data) > 33:
        size = struct.unpack(">II", data[16:24])
    elif mime_type == "image/gif" and len(data) > 13:
        size = struct.unpack("<HH", data[6:10])
    elif mime_type == "image/jpeg":
        size = _jpeg_size(data)
    else:
        return None
    width, height = size
    fits = 0 < width <= MOST_SIDE and 0 < height <= MOST_SIDE and width * height <= MOST_PIXELS
    return (width, height) if fits else None


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    for _ in range(MOST_SEGMENTS):
        kind, length = data[at + 1 : at + 2], data[at + 2 : at + 4]
        if data[at : at + 1] != b"\xff" or len(length) < 2 or kind == SCAN:
            break
        if b"\xc0" <= kind <= b"\xcf" and kind not in NO_FRAMES and len(data) > at + 9:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(length, "big")
    return 0, 0
