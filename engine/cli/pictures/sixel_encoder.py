"""A PNG as sixel. This runs in a guest, which has the picture as a file: the host decodes nothing.

Pixels are handled a row at a time: a row of one channel is bytes, and rows are added and averaged as one long integer.
Colours are those of a cube of six levels a channel, dithered in squares of four by four.
"""

from __future__ import annotations

import itertools
import re
import struct
import zlib
from collections.abc import Callable, Iterator

LEVELS = 6
CLEAR = LEVELS**3  # stands for what is not painted
BAYER = ((0, 8, 2, 10), (12, 4, 14, 6), (3, 11, 1, 9), (15, 7, 13, 5))
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by the kind of a PNG
BAND = 6  # rows

Row = list[bytes]  # a row's channels: red, green, blue, and how much of it covers


def encode(data: bytes, most_width: int, most_height: int, most_pixels: int) -> bytes:
    """The picture, halved until it fits. Raises ValueError for what is no PNG, or one of a kind that is not read."""
    width, height, rows = read(data, most_pixels)
    while width > most_width or height > most_height:
        if width < 2 or height < 2:
            raise ValueError("it is too long and thin")
        width, height, rows = width // 2, height // 2, _halved(rows, width // 2)
    head = b'\x1bP0;1q"1;1;%d;%d' % (width, height)
    return b"".join((head, _palette(), *_bands(_dithered(rows, width), width), b"\x1b\\"))


def read(data: bytes, most_pixels: int) -> tuple[int, int, Iterator[Row]]:
    """The size of a PNG, and its rows."""
    header, palette, clear, packed = b"", b"", b"", bytearray()
    for kind, body in _chunks(data):
        if kind == b"IHDR":
            header = body
        elif kind == b"PLTE":
            palette = body
        elif kind == b"tRNS":
            clear = body
        elif kind == b"IDAT":
            packed += body
    width, height, depth, form, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    if interlaced or form not in CHANNELS or width * height > most_pixels:
        raise ValueError("it is interlaced, too large, or of no kind")
    bits = depth * CHANNELS[form]
    line = (width * bits + 7) // 8
    raw = zlib.decompressobj().decompress(bytes(packed), (line + 1) * height)
    if len(raw) != (line + 1) * height:
        raise ValueError("it is cut off")
    plain = _unfiltered(raw, line, max(1, bits // 8))
    values = (_spread(row, depth, width * CHANNELS[form], form != 3) for row in plain)
    return width, height, (_channels(row, form, palette, clear) for row in values)


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 8
    while at + 8 <= len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        yield kind, data[at + 8 : at + 8 + length]
        at += 12 + length


def _unfiltered(raw: bytes, line: int, step: int) -> Iterator[bytes]:
    """Each row as it was before the encoder made differences of it."""
    above = bytes(line)
    for at in range(0, len(raw), line + 1):
        above = FILTERS[raw[at]](raw[at + 1 : at + 1 + line], above, step)
        yield above


def _sub(row: bytes, above: bytes, step: int) -> bytes:
    made = bytearray(row)
    for channel in range(step):
        left = 0
        made[channel::step] = bytes([left := left + new & 255 for new in row[channel::step]])
    return bytes(made)


def _up(row: bytes, above: bytes, step: int) -> bytes:
    """All bytes added at once: without their highest bits there is no carry from one to the next."""
    low, high = (int.from_bytes(bytes((bit,)) * len(row), "big") for bit in (127, 128))
    one, other = int.from_bytes(row, "big"), int.from_bytes(above, "big")
    return ((one & low) + (other & low) ^ (one ^ other) & high).to_bytes(len(row), "big")


def _average(row: bytes, above: bytes, step: int) -> bytes:
    made = bytearray(step) + row
    for at in range(len(row)):
        made[at + step] = row[at] + (made[at] + above[at] >> 1) & 255
    return bytes(made[step:])


def _paeth(row: bytes, above: bytes, step: int) -> bytes:
    made, upper = bytearray(step) + row, bytes(step) + above
    for at, new in enumerate(row):
        left, up, corner = made[at], upper[at + step], upper[at]
        nearest = left + up - corner
        to_left, to_up, to_corner = abs(nearest - left), abs(nearest - up), abs(nearest - corner)
        chosen = left if to_left <= to_up and to_left <= to_corner else up if to_up <= to_corner else corner
        made[at + step] = new + chosen & 255
    return bytes(made[step:])


FILTERS: tuple[Callable[[bytes, bytes, int], bytes], ...] = (lambda row, *_: row, _sub, _up, _average, _paeth)


def _channels(row: bytes, form: int, palette: bytes, clear: bytes) -> Row:
    count = CHANNELS[form]
    parts = [row[at::count] for at in range(count)]
    if form == 3:
        tables = [palette[at::3].ljust(256, b"\0") for at in range(3)]
        return [row.translate(table) for table in tables] + [row.translate(clear.ljust(256, b"\xff"))]
    cover = parts.pop() if form in (4, 6) else b"\xff" * len(parts[0])
    return [*(parts * 3)[:3], cover] if len(parts) == 1 else [*parts, cover]


def _spread(row: bytes, depth: int, count: int, scaled: bool) -> bytes:
    """So many values, a byte each: *scaled* to the whole of it, unless they are numbers of colours."""
    if depth == 16:
        return row[::2]  # the higher half of each
    if depth == 8:
        return row
    each, scale = 8 // depth, 255 // (2**depth - 1) if scaled else 1
    made = bytearray(len(row) * each)
    for at in range(each):
        shift = 8 - depth * (at + 1)
        made[at::each] = row.translate(bytes((value >> shift & 2**depth - 1) * scale for value in range(256)))
    return bytes(made[:count])


def _halved(rows: Iterator[Row], width: int) -> Iterator[Row]:
    """Half as wide and high: each pixel the middle of four."""
    for upper, lower in zip(rows, rows, strict=False):  # of an odd number, the last is left out
        yield [
            _middle(_middle(*_columns(one, width)), _middle(*_columns(other, width)))
            for one, other in zip(upper, lower, strict=True)
        ]


def _columns(row: bytes, width: int) -> tuple[bytes, bytes]:
    return row[0 : 2 * width : 2], row[1 : 2 * width : 2]


def _middle(one: bytes, other: bytes) -> bytes:
    """Between two rows, byte by byte: what they share, and half of what they do not."""
    first, second = int.from_bytes(one, "big"), int.from_bytes(other, "big")
    even = int.from_bytes(b"\xfe" * len(one), "big")
    return ((first & second) + (((first ^ second) & even) >> 1)).to_bytes(len(one), "big")


def _dithered(rows: Iterator[Row], width: int) -> Iterator[bytes]:
    """Each pixel as the number of its colour."""
    shares = [[more / 16 + 1 / 32 for more in line] for line in BAYER]
    scales = (LEVELS**2, LEVELS, 1)
    tables = [[[_levels(share, scale) for share in line] for scale in scales] for line in shares]
    hidden = bytes(255 * (value < 128) for value in range(256))
    clear = int.from_bytes(bytes((CLEAR,)) * width, "big")
    for number, (*colours, cover) in enumerate(rows):
        total = 0
        for channel, by_column in zip(colours, tables[number % 4], strict=True):
            part = bytearray(width)
            for at, table in enumerate(by_column):
                part[at::4] = channel[at::4].translate(table)
            total += int.from_bytes(part, "big")
        mask = int.from_bytes(cover.translate(hidden), "big")
        yield ((total & ~mask) | (clear & mask)).to_bytes(width, "big")


def _levels(share: float, scale: int) -> bytes:
    """The level of each value, where so much of a level is enough for the next."""
    return bytes(int(value * (LEVELS - 1) / 255 + share) * scale for value in range(256))


def _palette() -> bytes:
    shares = [100 * level // (LEVELS - 1) for level in range(LEVELS)]
    colours = itertools.product(shares, repeat=3)
    return b"".join(b"#%d;2;%d;%d;%d" % (number, *colour) for number, colour in enumerate(colours))


def _bands(rows: Iterator[bytes], width: int) -> Iterator[bytes]:
    """Six rows at a time: for each colour in them, which of the six each column has it in."""
    empty = int.from_bytes(b"?" * width, "big")
    bits: dict[tuple[int, int], bytes] = {}
    while band := list(itertools.islice(rows, BAND)):
        for colour in sorted(set().union(*band) - {CLEAR}):
            total = empty
            for at, row in enumerate(band):
                table = bits.get((colour, at))
                if table is None:
                    table = bits[colour, at] = bytes((1 << at) * (value == colour) for value in range(256))
                total += int.from_bytes(row.translate(table), "big")
            line = total.to_bytes(width, "big").rstrip(b"?")
            yield b"#%d%b$" % (colour, re.sub(rb"(.)\1{3,}", lambda run: b"!%d%b" % (len(run[0]), run[1]), line))
        yield b"-"
