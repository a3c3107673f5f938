"""Pictures on a terminal: which terminals show them, what is sent to them, and what is saved instead."""

from __future__ import annotations

import base64
import os
import pty
import re
import struct
import termios
import threading
import zlib
from pathlib import Path

import pytest

from go_ent.engine.cli.pictures import support
from go_ent.engine.cli.pictures.protocols import iterm2, kitty
from go_ent.engine.cli.pictures.sixel import SOUND
from go_ent.engine.cli.pictures.sixel_encoder import encode, read
from go_ent.engine.cli.pictures.sizes import size_of
from go_ent.engine.cli.pictures.support import QUESTION, Area, attributes_of, way_by_environment
from tests.engine.cli.test_run import Shell, shell
from tests.engine.cli.test_signals import terminal

__all__ = ["shell"]

AREA = Area(80, 24, (8, 16))
MAKES = """import base64
with open('chart.png', 'wb') as file:
    file.write(base64.b64decode(picture))
len(picture)"""


def png(
    width: int, rows: list[bytes], form: int = 2, *, depth: int = 8, more: bytes = b"", interlaced: int = 0
) -> bytes:
    """A PNG of rows that have their filter in front."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, len(rows), depth, form, 0, 0, interlaced)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            more,
            chunk(b"IDAT", zlib.compress(b"".join(rows))),
            chunk(b"IEND", b""),
        )
    )


def painted(sixel: bytes) -> tuple[int, int, dict[tuple[int, int], tuple[int, ...]]]:
    """The pixels that a terminal would paint, by a reader of its own."""
    assert SOUND.fullmatch(sixel)
    head, body = sixel[len(b"\x1bP0;1q") : -2].split(b"#", 1)
    width, height = map(int, head.split(b";")[2:])
    palette: dict[int, tuple[int, ...]] = {}
    pixels: dict[tuple[int, int], tuple[int, ...]] = {}
    x = y = colour = 0
    for token in re.finditer(rb"#([0-9]+)(?:;2;([0-9]+);([0-9]+);([0-9]+))?|!([0-9]+)(.)|([$-])|([?-~])", b"#" + body):
        number, red, green, blue, times, repeated, move, once = token.groups()
        if number is not None:
            colour = int(number)
            if red is not None:
                palette[colour] = (int(red), int(green), int(blue))
        elif move == b"$":
            x = 0
        elif move == b"-":
            x, y = 0, y + 6
        else:
            bits = (repeated or once)[0] - 63
            count = int(times or 1)
            pixels |= {(x + at, y + row): palette[colour] for at in range(count) for row in range(6) if bits >> row & 1}
            x += count
    return width, height, pixels


class TestWhichTerminals:
    @pytest.mark.parametrize(
        ("environ", "way"),
        [
            ({"TERM": "xterm-kitty"}, "kitty"),
            ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
            ({"TERM": "xterm-ghostty"}, "kitty"),
            ({"KONSOLE_VERSION": "220401"}, "kitty"),
            ({"KONSOLE_VERSION": "210800"}, "ask"),
            ({"TERM_PROGRAM": "iTerm.app"}, "iterm2"),
            ({"TERM_PROGRAM": "WezTerm"}, "iterm2"),
            ({"LC_TERMINAL": "iTerm2", "TERM": "xterm-256color"}, "iterm2"),
            ({"TERM": "xterm-256color"}, "ask"),
            ({"TMUX": "/run/tmux", "KITTY_WINDOW_ID": "1", "TERM": "tmux-256color"}, "ask"),
            ({"TERM": "screen-256color", "LC_TERMINAL": "iTerm2"}, "ask"),
            ({"GO_ENT_PICTURES": "sixel", "TERM": "xterm-kitty"}, "sixel"),
            ({"GO_ENT_PICTURES": "none", "TERM": "xterm-kitty"}, None),
            ({"GO_ENT_PICTURES": "\x1b[c", "TERM": "xterm-kitty"}, "kitty"),
        ],
    )
    def test_the_environment_says(self, environ: dict[str, str], way: str | None) -> None:
        assert way_by_environment(environ) == way

    @pytest.mark.parametrize(
        ("answer", "attributes"),
        [(b"\x1b[?62;4;22c", [b"62", b"4", b"22"]), (b"x" * 600, []), (b"", [])],
        ids=["it answers", "it says something else", "it is silent"],
    )
    def test_a_terminal_is_asked_what_it_is(
        self, answer: bytes, attributes: list[bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It need not answer: the wait is bounded, and its settings are as they were."""
        if answer:
            monkeypatch.setattr(support, "PATIENCE_S", 60.0)  # this machine may be slow to answer itself
        master, slave = pty.openpty()
        asked: list[bytes] = []

        def answers() -> None:
            asked.append(os.read(master, 64))
            if answer:
                os.write(master, answer)

        thread = threading.Thread(target=answers)
        try:
            before = termios.tcgetattr(slave)
            thread.start()
            assert attributes_of(slave) == attributes
            assert termios.tcgetattr(slave) == before
            thread.join()
            assert asked == [QUESTION]
        finally:
            os.close(master)
            os.close(slave)

    def test_what_somebody_has_typed_ahead_is_not_read(self) -> None:
        master, slave = pty.openpty()
        try:
            os.write(master, b"ls\n")
            assert attributes_of(slave) == []
            assert os.read(slave, 64) == b"ls\n"
        finally:
            os.close(master)
            os.close(slave)


class TestSizes:
    def test_a_picture_says_its_size(self) -> None:
        jpeg = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc4\x00\x03x\xff\xc0\x00\x11\x08\x00\x20\x00\x30" + bytes(20)
        assert size_of(png(2, [b"\0" + bytes(6)]), "image/png") == (2, 1)
        assert size_of(b"GIF89a\x05\x00\x07\x00" + bytes(8), "image/gif") == (5, 7)
        assert size_of(jpeg, "image/jpeg") == (48, 32)
        assert size_of(b"RIFF\0\0\0\0WEBP" + bytes(40), "image/webp") is None


class TestSequences:
    def test_kitty_gets_a_png_in_pieces_and_does_not_answer(self) -> None:
        data = png(2, [b"\0" + bytes(6)]) + os.urandom(9000)
        pieces = list(kitty(data, (2, 1), AREA))
        assert [re.match(r"\x1b_G([^;]*);", piece)[1] for piece in pieces] == [  # type: ignore[index]
            "a=T,f=100,q=2,m=1",
            "q=2,m=1",
            "q=2,m=0",
        ]
        sent = "".join(re.fullmatch(r"\x1b_G[^;]*;([A-Za-z0-9+/=]{1,4096})\x1b\\", piece)[1] for piece in pieces)  # type: ignore[index]
        assert base64.b64decode(sent) == data

    @pytest.mark.parametrize(
        ("size", "fitted"), [((640, 100), ""), ((2000, 100), ",c=80"), ((640, 2000), ",r=21"), ((9000, 9000), ",r=21")]
    )
    def test_what_is_larger_than_the_screen_is_fitted(self, size: tuple[int, int], fitted: str) -> None:
        assert f"q=2{fitted},m=0" in next(kitty(b"x", size, AREA))

    def test_iterm2_gets_the_file_without_its_name(self) -> None:
        assert list(iterm2(b"GIF89a", (2000, 4), AREA)) == [
            "\x1b]1337;File=inline=1;size=6;width=80;preserveAspectRatio=1:R0lGODlh\a"
        ]


class TestSixel:
    def test_colours_of_the_cube_are_exact(self) -> None:
        """Filters, rows beyond one band, and runs of a colour."""
        first = bytes((255, 0, 0)) * 5 + bytes((0, 255, 51)) * 4
        rows = [b"\0" + first] + [b"\2" + bytes(27)] * 7
        width, height, pixels = painted(encode(png(9, rows), 100, 100, 1000))
        assert (width, height) == (9, 8)
        assert pixels == {(x, y): (100, 0, 0) if x < 5 else (0, 100, 20) for x in range(9) for y in range(8)}

    def test_what_does_not_cover_is_not_painted(self) -> None:
        row = b"\0" + bytes((255, 255, 255, 255, 0, 0, 0, 0))
        assert painted(encode(png(2, [row], form=6), 9, 9, 99))[2] == {(0, 0): (100, 100, 100)}

    def test_large_ones_are_halved_until_they_fit(self) -> None:
        width, height, pixels = painted(encode(png(64, [b"\0" + b"\xff" * 192] * 32), 20, 20, 9999))
        assert (width, height) == (16, 8)
        assert len(pixels) == 128
        assert set(pixels.values()) == {(100, 100, 100)}

    def test_filters_are_undone(self) -> None:
        """Each filter of PNG on the same pixels: made here by its definition."""
        plain = [bytes((x * 7 + y * 31 + c * 50) & 255 for x in range(6) for c in range(3)) for y in range(5)]
        rows = []
        for kind, row in enumerate(plain):
            above = plain[kind - 1] if kind else bytes(18)
            made = bytearray((kind,))
            for at, value in enumerate(row):
                left = row[at - 3] if at >= 3 else 0
                corner = above[at - 3] if at >= 3 else 0
                paeth = min((left, above[at], corner), key=lambda one: abs(left + above[at] - corner - one))
                made.append(value - (0, left, above[at], (left + above[at]) // 2, paeth)[kind] & 255)
            rows.append(bytes(made))
        _, _, found = read(png(6, rows), 999)
        assert [bytes(value for pixel in zip(*row[:3], strict=True) for value in pixel) for row in found] == plain

    @pytest.mark.parametrize(
        ("depth", "packed"), [(1, b"\xa0"), (2, b"\x44"), (4, b"\x10\x10"), (8, b"\1\0\1")], ids=str
    )
    def test_colours_by_number_and_greys(self, depth: int, packed: bytes) -> None:
        body = bytes((255, 0, 0, 0, 0, 255))
        palette = struct.pack(">I", 6) + b"PLTE" + body + struct.pack(">I", zlib.crc32(b"PLTE" + body))
        _, _, rows = read(png(3, [b"\0" + packed], form=3, depth=depth, more=palette), 99)
        assert next(rows)[:3] == [bytes((0, 255, 0)), bytes(3), bytes((255, 0, 255))]
        _, _, rows = read(png(3, [b"\0" + packed], form=0, depth=depth), 99)
        most = 255 if depth < 8 else 1
        assert {value // (most // (2**depth - 1) or 1) for value in next(rows)[0]} == {0, 1}

    @pytest.mark.parametrize(
        "bad",
        [
            png(9, [b"\0" + bytes(27)], interlaced=1),
            png(9, [b"\0" + bytes(26)]),
            png(9, [b"\7" + bytes(27)]),
            png(9999, [b"\0" + bytes(27)]),
            b"\x89PNG\r\n\x1a\n",
        ],
        ids=["interlaced", "cut off", "no such filter", "too large", "empty"],
    )
    def test_what_is_not_read_is_refused(self, bad: bytes) -> None:
        with pytest.raises((ValueError, IndexError, struct.error)):
            encode(bad, 100, 100, 1000)


class TestOnATerminal:
    PICTURE = png(40, [b"\0" + bytes((255, 0, 0)) * 40] * 12)

    def input(self) -> str:
        return f'{{"picture": "{base64.b64encode(self.PICTURE).decode()}"}}'

    def test_kitty_shows_it(self, shell: Shell) -> None:
        with terminal(shell, "exec", "-c", MAKES, "--input", self.input(), env={"TERM": "xterm-kitty"}) as shown:
            assert shown.end() == 0
        assert base64.b64encode(self.PICTURE) in shown.said
        assert b"\x1b_Ga=T" in shown.said
        assert b"chart.png (40 x 12)" in shown.said
        assert b"picture saved" not in shown.said

    def test_a_guest_makes_sixel_of_it(self, shell: Shell) -> None:
        with terminal(shell, "exec", "-c", MAKES, "--input", self.input(), env={"GO_ENT_PICTURES": "sixel"}) as shown:
            assert shown.end() == 0
        found = re.search(rb"\x1bP0;1q.*?\x1b\\", shown.said, re.DOTALL)
        assert found is not None
        assert set(painted(found[0])[2].values()) == {(100, 0, 0)}

    def test_elsewhere_it_is_saved(self, shell: Shell, tmp_path: Path) -> None:
        env = {"GO_ENT_PICTURES": "none", "TMPDIR": str(tmp_path)}
        with terminal(shell, "exec", "-c", MAKES, "--input", self.input(), columns=200, env=env) as saved:
            assert saved.end() == 0
        path = re.search(rb"picture saved: (\S+)", saved.said)
        assert path is not None
        assert b"\x1b_G" not in saved.said
        assert b"\x1b[c" not in saved.said
        assert Path(path[1].decode()).read_bytes() == self.PICTURE

    def test_a_pipe_gets_neither(self, shell: Shell, tmp_path: Path) -> None:
        env = {"TERM": "xterm-kitty", "TMPDIR": str(tmp_path)}
        out = shell.folder / "out"
        with terminal(shell, "exec", "-c", MAKES, "--input", self.input(), stdout=out, env=env) as piped:
            assert piped.end() == 0
        assert out.read_bytes() == b"%d\n" % len(base64.b64encode(self.PICTURE))
        assert not list(tmp_path.glob("go-ent-*"))
        assert b"\x1b_G" not in piped.said

    def test_output_shows_a_picture_that_was_kept(self, shell: Shell) -> None:
        shell.text("exec", "-c", MAKES, "--input", self.input())
        with terminal(shell, "output", "--file", "chart.png", env={"TERM": "xterm-kitty"}) as shown:
            assert shown.end() == 0
        assert base64.b64encode(self.PICTURE) in shown.said
