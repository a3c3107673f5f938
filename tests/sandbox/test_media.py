"""Bytes in both directions, and what files are by their content."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import pytest

from go_ent.sandbox import Run, Sandbox
from go_ent.sandbox.media.kinds import UNKNOWN, mime_type_of
from go_ent.sandbox.media.marks import as_text, mark, marked, revived, with_files

SVG = b'<?xml version="1.0"?>\n<!-- made by hand -->\n<svg xmlns="http://www.w3.org/2000/svg"/>'


def png(width: int = 2, height: int = 2) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\xff\0\0" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


PNG = png()


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (PNG, "x", "image/png"),
        (PNG, "x.html", "image/png"),
        (b"\xff\xd8\xff\xe0", "a.png", "image/jpeg"),
        (b"GIF89a...", "", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", "", "audio/wav"),
        (b"ID3\x03", "", "audio/mpeg"),
        (b"OggS\0", "", "audio/ogg"),
        (SVG, "a.txt", "image/svg+xml"),
        (b"%PDF-1.7", "", "application/pdf"),
        (b"PK\x03\x04..", "a.xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        (b"PK\x03\x04..", "a.png", "application/zip"),
        (b"a,b\n1,2", "a.CSV", "text/csv"),
        (b"<html><svg>", "a.png", "text/plain"),
        (b"{}", "a.json", "application/json"),
        (b"not a picture", "a.png", "text/plain"),
        (b"\0\1\2", "a.txt", UNKNOWN),
        (b"\xff\xfe\xfa", "", UNKNOWN),
        (b"", "a.png", "text/plain"),
        ("é".encode() * 3000, "", "text/plain"),
        (b"x" + "é".encode() * 3000, "", "text/plain"),
    ],
)
def test_what_a_file_is(data: bytes, name: str, kind: str) -> None:
    assert mime_type_of(data, name) == kind


def test_marks() -> None:
    value = {"a": [PNG, b"text", 1], "b": "x"}
    with_marks = marked(value)
    assert with_marks["a"][1:] == ["text", 1]
    assert revived(with_marks) == {"a": [PNG, "text", 1], "b": "x"}
    assert as_text(with_marks)["a"][0] == with_marks["a"][0]["$bytes"]
    untouched = {"a": [1, {"b": "c"}]}
    assert revived(untouched) is untouched
    assert as_text(untouched) is untouched
    assert revived({"$bytes": "not base64!"}) == {"$bytes": "not base64!"}
    files = {"result.png": PNG}
    told = {"file": "result.png", "bytes": len(PNG)}
    assert with_files([told, 1], files) == [mark(PNG, name="result.png"), 1]
    for other in (
        {**told, "bytes": 1},
        {**told, "more": 1},
        {"file": "other.png", "bytes": 1},
        {"file": 5, "bytes": 1},
    ):
        assert with_files(other, files) is other


def picture() -> bytes:
    return PNG


def pictures() -> dict[str, object]:
    return {"all": [PNG, "text"], "n": 2}


def size(data: bytes) -> int:
    return len(data)


@pytest.fixture(scope="module")
def drawing() -> Iterator[Sandbox]:
    with Sandbox(tools=[picture, pictures, size], workers=1) as box:
        yield box


def left(run: Run) -> dict[str, str]:
    return {one.name: one.mime_type for one in run.media}


def test_bytes_in_a_result_are_files(drawing: Sandbox) -> None:
    run = drawing.run_sync("await tools.picture()")
    assert (run.result, run.files) == ({"file": "result.png", "bytes": len(PNG)}, {"result.png": PNG})
    (one,) = run.media
    assert (one.kind, one.mime_type, one.data) == ("image", "image/png", PNG)
    run = drawing.run_sync("{(1, 2): b'\\xff\\xfe', 'b': [bytearray(b'\\xff\\xfe'), b'text', b'\\x00\\xff']}")
    first, second = {"file": "result.bin", "bytes": 2}, {"file": "result-2.bin", "bytes": 2}
    assert run.result == {"1,2": first, "b": [first, "text", second]}  # the same bytes are one file
    run = drawing.run_sync(f"open('result.svg', 'w').write('mine')\n{SVG!r}")
    assert run.result == {"file": "result-2.svg", "bytes": len(SVG)}
    assert left(run) == {"result.svg": "text/plain", "result-2.svg": "image/svg+xml"}


def test_a_guest_has_bytes_and_hands_them_on(drawing: Sandbox) -> None:
    run = drawing.run_sync(
        "p = await tools.picture()\nq = (await tools.pictures())['all'][0]\n"
        "import asyncio\nboth = await asyncio.gather(tools.size(p), tools.size(data=q))\n"
        "open('a.png', 'wb').write(q)\n[isinstance(p, bytes), p == q, both]"
    )
    assert run.result == [True, True, [len(PNG)] * 2], run.error
    assert run.files == {"a.png": PNG}
    assert drawing.run_sync("[len(x), x[:4] == b'\\x89PNG', y]", {"x": PNG, "y": b"text"}).result == [
        len(PNG),
        True,
        "text",
    ]
    run = drawing.run_sync("x", {"x": {"$bytes": "no base64!"}})
    assert run.result == {"$bytes": "no base64!"}


def test_bytes_have_the_room_of_files(drawing: Sandbox) -> None:
    run = drawing.run_sync("b'\\xff' * 2_000_000")  # more than a result may have
    assert (run.result, len(run.files["result.bin"])) == ({"file": "result.bin", "bytes": 2_000_000}, 2_000_000)
    run = drawing.run_sync("b'\\xff' * 2000", limits={"max_file_bytes": 1000})
    assert run.status == "error"
    assert run.error is not None
    assert "max_file_bytes" in run.error.message


def test_a_session_hands_over_what_a_run_has_changed(drawing: Sandbox) -> None:
    with drawing.session() as session:
        assert session.run_sync("open('a.txt', 'w').write('1')").files == {"a.txt": b"1"}
        assert session.run_sync("open('b.txt', 'w').write('2'); open('a.txt').read()").files == {"b.txt": b"2"}
        run = session.run_sync("open('a.txt', 'a').write('3')\nopen('b.txt').read()")
        assert (run.result, run.files) == ("2", {"a.txt": b"13"})
