"""Captured output: `print` goes to the host line by line, up to a cap."""

import codecs
import io
from typing import Any

import wit_world

EAGER_LINES = 1000
CHUNK = 4096
MARKER = "\n[output cut: more than {limit} bytes were printed]\n"


class Output(io.TextIOBase):
    """A text stream that hands over each line at once, so that a run that is stopped keeps what it printed.

    After `EAGER_LINES` lines it hands over chunks instead: a program that prints a lot should not pay a
    crossing for each line.
    """

    def __init__(self) -> None:
        self.reset(None)

    def reset(self, limit: int | None) -> None:
        self.limit = limit
        self.written = 0
        self.lines = 0
        self.buffer_: list[str] = []
        self.buffered = 0
        self.full = False
        self._bytes: Bytes | None = None

    name = "<stdout>"
    mode = "w"
    line_buffering = True
    encoding = "utf-8"
    errors = "backslashreplace"

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        raise io.UnsupportedOperation("fileno")

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if text and not self.full:
            self._take(text)
        return len(text)

    def _take(self, text: str) -> None:
        if not text.isascii():
            text = text.encode("utf-8", "backslashreplace").decode("utf-8")
        size = len(text) if text.isascii() else len(text.encode("utf-8"))
        if self.limit is not None and self.written + size > self.limit:
            room = self.limit - self.written
            text = text.encode("utf-8")[:room].decode("utf-8", "ignore")
            self.full = True
        self.written += size
        self.buffer_.append(text)
        self.buffered += size
        if self.full:
            self.buffer_.append(MARKER.format(limit=self.limit))
            self.flush()
        elif self.buffered >= CHUNK:
            self.flush()
        elif self.lines < EAGER_LINES and "\n" in text:
            self.lines += 1
            self.flush()

    def reconfigure(self, **options: Any) -> None:
        """Accepted and without effect: the output is UTF-8 and unbuffered already."""

    def flush(self) -> None:
        if self.buffer_:
            text = "".join(self.buffer_)
            self.buffer_.clear()
            self.buffered = 0
            wit_world.write(text)

    @property
    def buffer(self) -> "Bytes":
        if self._bytes is None:
            self._bytes = Bytes(self)
        return self._bytes

    def close(self) -> None:
        """Output outlives whoever wraps and closes it."""


class Bytes(io.RawIOBase):
    """`sys.stdout.buffer`."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.output.write(self.decoder.decode(bytes(data)))
        return len(data)
