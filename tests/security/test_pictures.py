"""Attacks on a terminal by pictures: by their bytes, their sizes, their names, and what a guest makes of them."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from pathlib import Path

import pytest

from go_ent.engine.cli.pictures.protocols import iterm2, kitty
from go_ent.engine.cli.pictures.sixel import SOUND, sixel
from go_ent.engine.cli.pictures.sizes import size_of
from go_ent.engine.cli.pictures.support import Area
from tests.engine.cli.test_pictures import png
from tests.engine.cli.test_run import Shell, shell
from tests.engine.cli.test_signals import terminal
from tests.security.corpus import attack

__all__ = ["shell"]

AREA = Area(80, 24, (8, 16))
ESCAPES = b"\x1b]0;owned\x07\x1b[2J\x1b_Ga=d\x1b\\\x9b31m\x90q\x9c\x1bP+q544e\x1b\\"
SMALL = png(4, [b"\0" + bytes(12)] * 4)


@attack("terminal", "escape sequences inside the bytes of a picture")
def test_a_pictures_bytes_are_sent_as_base64_alone() -> None:
    for sent in ("".join(kitty(SMALL + ESCAPES, (4, 4), AREA)), "".join(iterm2(SMALL + ESCAPES, (4, 4), AREA))):
        assert not re.search("[\x00-\x1a\x1c-\x1f\x7f-\x9f]", sent.removesuffix("\a"))
        assert sent.count("\x1b") <= 2
        assert "owned" not in sent


@pytest.mark.parametrize(
    "data",
    [
        SMALL[:16] + struct.pack(">II", 60_000, 60_000) + SMALL[24:],
        SMALL[:16] + struct.pack(">II", 9_000, 9_000) + SMALL[24:],
        SMALL[:16] + struct.pack(">II", 0, 5) + SMALL[24:],
        SMALL[:20],
        b"\xff\xd8\xff\xe0\xff\xff" * 1000,
        b"\xff\xd8" + b"\xff\xe0\x00\x00" * 1000,
        b"\xff\xd8\xff\xc0\x00\x11\x08\xff\xff\xff\xff" + bytes(20),
        b"GIF89a\xff\xff\xff\xff" + bytes(20),
    ],
    ids=["huge", "too many pixels", "no width", "cut off", "no frame", "segments of no length", "jpeg", "gif"],
)
@attack("terminal", "a small picture that says it is huge, or never says its size")
def test_what_a_terminal_would_decode_is_bounded(data: bytes) -> None:
    kind = {b"\x89": "image/png", b"\xff": "image/jpeg", b"G": "image/gif"}[data[:1]]
    assert size_of(data, kind) is None


@pytest.mark.parametrize(
    "made",
    [
        b'\x1bP0;1q"1;1;4;4#0;2;0;0;0#0!4~$-\x1b]0;owned\x07\x1b\\',
        b'\x1bP0;1q"1;1;4;4\x9c\x9b2J\x1b\\',
        b'\x1bP0;1q"1;1;4;4~\x1b\\\x1b[2J\x1b\\',
        b'\x1bP0;1q"1;1;4;4~\n\x1b\\',
        b"\x1b[2J",
    ],
)
@attack("terminal", "a guest that was taken over answers with other sequences than sixel")
def test_what_a_guest_made_is_drawn_only_if_it_is_sixel(made: bytes) -> None:
    assert SOUND.fullmatch(b'\x1bP0;1q"1;1;4;4#0;2;0;0;0#0!4~$-\x1b\\')
    assert not SOUND.fullmatch(made)


@attack("terminal", "a picture that unpacks to gigabytes")
def test_a_bomb_is_unpacked_in_a_guest_and_no_further_than_its_size() -> None:
    packed = zlib.compress(bytes(50 << 20), 9)
    body = struct.pack(">I", len(packed)) + b"IDAT" + packed + bytes(4)
    drawn = "".join(sixel(SMALL[:33] + body, (4, 4), AREA))
    assert SOUND.fullmatch(drawn.encode())
    assert len(drawn) < 10_000
    assert list(sixel(SMALL[:33] + b"\xff" * 200, (4, 4), AREA)) == []


@pytest.mark.parametrize("env", [{"TERM": "xterm-kitty"}, {"GO_ENT_PICTURES": "none"}], ids=["shown", "saved"])
@attack("terminal", "a picture whose name acts on the terminal")
def test_names_are_plain(shell: Shell, tmp_path: Path, env: dict[str, str]) -> None:
    names = ["\x1b]0;owned\x07.png", "\u202egnp.exe", "a/../b\x9b2J.png"]
    inputs = {"picture": base64.b64encode(SMALL).decode(), "names": names}
    code = (
        "import base64, os\nos.makedirs('a', exist_ok=True)\n"
        "for name in names:\n    with open(name, 'wb') as file:\n        file.write(base64.b64decode(picture))\n"
    )
    env = {**env, "TMPDIR": str(tmp_path)}
    with terminal(shell, "exec", "-c", code, "--input", json.dumps(inputs), env=env) as shown:
        assert shown.end() == 0
    told = re.sub(rb"\x1b_G[^\x1b]*\x1b\\|\x1b\[[0-9;]*[mK]", b"", shown.said).decode()
    assert "image/png" in told
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", told), ascii(told)
