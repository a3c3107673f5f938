"""Records as lines, and reading them back: what is whole, what a crash has torn, and what is damaged."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pydantic_core import from_json, to_json

from go_ent.engine.executions.storage import Record

MAX_LINE = 64 << 20
MAX_JOURNAL = 1 << 30
MAX_SEQ = 1 << 53

_CRC = b',"crc":"'
_TAIL = len(_CRC) + len(b'01234567"}\n')
# An older go-ent wrote no checksums, and the number first. Ours never begin so: a damaged checksum is not taken for
# none.
_OLDER = re.compile(rb'\{"seq": ?\d')


def encode(seq: int, at: float, kind: str, data: Mapping[str, Any], raw: Mapping[str, bytes] | None = None) -> bytes:
    """A record as its line. The *raw* members are JSON already, for which the caller vouches."""
    body = to_json({"at": at, "seq": seq, "kind": kind, **data}, inf_nan_mode="null")[:-1]
    if raw:
        for name, value in raw.items():
            if b"\n" in value:
                raise ValueError(f"{name} has a line break, and a record is one line")
            body += b',"%s":%s' % (name.encode(), value)
    line = b'%s,"crc":"%08x"}\n' % (body, zlib.crc32(body))
    if len(line) > MAX_LINE:
        raise ValueError(f"a record of {len(line)} bytes is too long: {MAX_LINE} may be")
    return line


def decode(line: bytes) -> tuple[Record, bool] | None:
    """The record in a line, and whether it has a checksum; None if it is damaged."""
    checked = line[-_TAIL:].startswith(_CRC)
    if checked:
        if line[len(_CRC) - _TAIL :] != b'%08x"}\n' % zlib.crc32(line[:-_TAIL]):
            return None
    elif not _OLDER.match(line):
        return None
    record = _parsed(line)
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        return None
    seq, at = record.get("seq"), record.setdefault("at", 0.0)
    if type(seq) is not int or not 0 < seq < MAX_SEQ or type(at) not in (int, float) or not math.isfinite(at):
        return None
    record.pop("crc", None)
    return record, checked


def _parsed(line: bytes) -> Any:
    """The JSON of a line, or None. What the quick parser refuses the slow one may read, which has other bounds."""
    try:
        return from_json(line)
    except ValueError:
        pass
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


class Gap(NamedTuple):
    """A damaged place: so many bytes there, in which the records from *first* to *last* are lost; none if *last* is
    less.
    """

    first: int
    last: int
    offset: int
    size: int


class Scan:
    """Goes through a journal, a record at a time, and knows afterwards what was wrong with it. It changes nothing.

    Where records are lost, a `note` stands in their place and says which. A journal that is not there is empty;
    what is no ordinary file, or too large, is an `OSError`.
    """

    def __init__(self, path: Path, *, offset: int = 0, after: int | None = 0, end: int | None = None) -> None:
        """Begin at *offset*, where the record follows number *after*; None: it is not known which comes there. Stop at
        *end*, if others' records follow in the same file.
        """
        self.path = path
        self._end = MAX_JOURNAL if end is None else end
        self.seq = after
        self.size = offset  # where the last whole record ends
        self.torn = 0  # bytes of a last line that is not whole
        self.ended = False  # whether that line has an end, which is not how a killed process leaves it
        self.gaps: list[Gap] = []
        self._at = 0.0

    def __iter__(self) -> Iterator[Record]:
        for record, _ in self.lines():
            yield record

    def lines(self) -> Iterator[tuple[Record, bytes]]:
        """The records, each with its line."""
        file = open_journal(self.path)
        if file is None:
            return
        with file:
            at = file.seek(self.size)
            bad = 0
            while line := file.readline(min(MAX_LINE, max(0, self._end - at))):
                ended, length = line.endswith(b"\n"), len(line)
                if not ended and length == MAX_LINE:
                    ended, more = _skip_line(file)
                    line, length = b"", length + more
                at += length
                record = self._believed(line, bad) if ended else None
                if record is None:
                    bad, self.ended = bad + 1, ended
                    continue
                if bad or not self._follows(record):
                    yield from self._lost(record["seq"] - 1, bad, at - length)
                self.seq, self._at, self.size, bad = record["seq"], record["at"], at, 0
                yield record, line
            if bad > 1:
                yield from self._lost((self.seq or 0) + bad, bad, at)
        self.torn = at - self.size

    def _believed(self, line: bytes, bad: int) -> Record | None:
        """The record in a line that comes after so many damaged ones, if it can be believed to belong here."""
        found = decode(line)
        if found is None:
            return None
        record, checked = found
        missing = record["seq"] - self.seq - 1 if self.seq is not None else 0
        # Without a checksum the number itself may be what is damaged: a jump is believed as far as damaged lines
        # explain it.
        if missing < 0 or (missing > 2 * bad and not checked):
            return None
        return record

    def _follows(self, record: Record) -> bool:
        if self.seq is None or record["seq"] == self.seq + 1:
            return True
        lost = record.get("lost")  # a journal that was mended says so where records are missing
        return record["kind"] == "note" and lost in ([self.seq + 1, record["seq"]], [self.seq + 1, record["seq"] - 1])

    def _lost(self, last: int, bad: int, end: int) -> Iterator[tuple[Record, bytes]]:
        first = self.seq + 1 if self.seq is not None else max(1, last - bad + 1)
        self.gaps.append(Gap(first, last, self.size, end - self.size))
        self.size = end
        if first <= last:
            data = lost(first, last)
            self.seq = last
            yield {"at": self._at, "seq": last, "kind": "note", **data}, encode(last, self._at, "note", data)


def lost(first: int, last: int) -> dict[str, Any]:
    """What a note says where records are missing."""
    said = f"record {first} is" if first == last else f"records {first} to {last} are"
    return {"text": f"{said} lost: the journal was damaged", "lost": [first, last]}


class Reading(NamedTuple):
    """The records of a journal, where the last whole one ends, and what is wrong: bytes of a torn last line, damaged
    places.
    """

    records: list[Record]
    size: int
    torn: int
    gaps: tuple[Gap, ...]


def read_records(path: Path, *, offset: int = 0) -> Reading:
    """All records of a journal, or those from *offset* on, where one begins."""
    scan = Scan(path, offset=offset, after=0 if offset == 0 else None)
    records = list(scan)
    return Reading(records, scan.size, scan.torn, tuple(scan.gaps))


def fits(path: Path, offset: int, seq: int | None) -> bool:
    """Whether a record, *seq* if that is given, of a journal ends at *offset*: what follows it, if anything, is the
    next one.
    """
    file = open_journal(path)
    if file is None:
        return False
    with file:
        if offset <= 0 or file.seek(0, os.SEEK_END) < offset:
            return False
        file.seek(offset - 1)
        if file.read(1) != b"\n":
            return False
        line = file.readline(MAX_LINE)
    if not line.endswith(b"\n"):
        return len(line) < MAX_LINE
    found = decode(line)
    return found is not None and seq in (None, found[0]["seq"] - 1)


def open_journal(path: Path) -> BinaryIO | None:
    """A journal to be read, or None if there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    file = os.fdopen(handle, "rb")
    try:
        check_journal(handle, path)
    except BaseException:
        file.close()
        raise
    return file


def check_journal(handle: int, path: Path) -> int:
    """The size of an open journal; `OSError` if it is none that we would have written."""
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, f"{path.name} is not an ordinary file")
    if found.st_size > MAX_JOURNAL:
        raise OSError(errno.EFBIG, f"{path.name} has {found.st_size} bytes, and {MAX_JOURNAL} may be")
    return found.st_size


def _skip_line(file: BinaryIO) -> tuple[bool, int]:
    """Pass over the rest of a line: whether it has an end, and how long it was."""
    length = 0
    while piece := file.readline(1 << 20):
        length += len(piece)
        if piece.endswith(b"\n"):
            return True, length
    return False, length
