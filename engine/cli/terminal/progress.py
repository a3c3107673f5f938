"""One line at the end of the terminal that says what is going on, for anything that takes longer than a second.

It is on the terminal's stderr alone: not in a pipe, nor with `--quiet` or `--json`. It makes way for whatever is
printed, and is gone at the end. It changes nothing of the terminal's own settings, so there is nothing to restore.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

from cyclopts import Parameter

from go_ent.engine.cli.terminal.output import is_terminal, is_utf8, paint, plain, say, screen

if TYPE_CHECKING:
    from go_ent.composer.project.image import Images
    from go_ent.sandbox.images import Image

QuietFlag = Annotated[bool, Parameter(name=["--quiet", "-q"], negative="", help="Write only errors to stderr.")]
DELAY_S = 1.0
TICK_S = 0.1
ERASE = "\r\x1b[2K"


class ProgressLine:
    """What is going on, how far it has come, and for how long. A context manager; may be told from any thread."""

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        self._what = what
        self._counted = ""
        self._on = not quiet and is_terminal(sys.stderr)
        self._frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" if is_utf8(sys.stderr) else "|/-\\"
        self._wrote = 0.0  # when something was last printed
        self._stays = not _is_pipe(sys.stdout)  # its reader may write to this terminal
        self._began = time.monotonic()
        self._turn = threading.RLock()
        self._drawn = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True, name="progress")

    def __enter__(self) -> ProgressLine:
        if isinstance(screen.live, ProgressLine):  # within another one's time: that one is told
            return screen.live
        if self._on:
            screen.live = self
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if screen.live is self:
            self._over.set()
            self._thread.join()
            self._erase()
            screen.live = None

    def tell(self, what: str) -> None:
        self._what = what

    def count(self, done: int, failed: int = 0, total: int | None = None) -> None:
        """Lines that are done; of so many, if that is known."""
        rate = done / max(0.001, time.monotonic() - self._began)
        of = f"{done:,} of {total:,}" if total is not None else f"{done:,} line{'' if done == 1 else 's'}"
        left = f", {_clock((total - done) / rate)} left" if total is not None and 0 < done < total else ""
        self._counted = f"{of} done, {failed:,} failed, {rate:,.{0 if rate >= 10 else 1}f}/s{left}"

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        with self._turn:
            drawn, before, self._wrote = self._drawn, self._wrote, time.monotonic()
            self._erase()
            yield
            # It comes back by itself. What prints all the time would hide it all the time.
            if drawn and self._stays and self._wrote - before < TICK_S and not screen.open:
                self._draw()

    def _tick(self) -> None:
        wait = DELAY_S
        while not self._over.wait(wait):
            wait = TICK_S
            with self._turn:
                if not screen.open and not self._over.is_set():
                    self._draw()

    def _draw(self) -> None:
        took = time.monotonic() - self._began
        frame = self._frames[int(took / TICK_S) % len(self._frames)]
        parts = [plain(part).replace("\n", " ") for part in (self._what, self._counted) if part]
        text = f"{', '.join(parts)}, {_clock(took)}"[: max(1, _width() - 4)]
        self._write(f"{ERASE}{paint(frame, 'cyan', sys.stderr)} {text}")
        self._drawn = True

    def _erase(self) -> None:
        if self._drawn:
            self._write(ERASE)
            self._drawn = False

    @staticmethod
    def _write(text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone
            sys.stderr.write(text)
            sys.stderr.flush()


def tell(what: str) -> None:
    """What is going on now, if anything shows it."""
    if isinstance(screen.live, ProgressLine):
        screen.live.tell(what)


def count(done: int, failed: int) -> None:
    """How many lines are done, if anything shows it."""
    if isinstance(screen.live, ProgressLine):
        screen.live.count(done, failed)


def _clock(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 60 else f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _is_pipe(stream: TextIO) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def _width() -> int:
    with contextlib.suppress(ValueError, OSError):
        return int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size(sys.stderr.fileno()).columns or 80
    return 80


def image_ready(
    folder: Path, *, quiet: bool = False, kinds: tuple[str, ...] = (), images: Images | None = None
) -> Image:
    """The image for code of *folder*, built now if it must be, with progress. Blocks; Ctrl-C ends the build.

    Of a project that nobody has trusted it is the standard one: its packages are not downloaded.
    """
    from go_ent.composer.project.files import find_project
    from go_ent.composer.project.image import project_image
    from go_ent.composer.project.trust import is_trusted

    seen: set[str] = set()
    with ProgressLine("looking for the sandbox image", quiet=quiet) as progress:

        def told(line: str) -> None:
            stage = line.partition(" … ")[0]
            progress.tell(stage)
            ended = line.endswith(".") if is_terminal(sys.stderr) else stage not in seen  # a log has each stage once
            if ended and not quiet:
                say(stage, err=True)
            seen.add(stage)

        project = find_project(folder)
        image = project_image(project, told, trusted=is_trusted(project), images=images)
        for kind in kinds:
            image.artefact(kind, told)
    return image
