"""stdin and stdout as the server reads and writes them: pipes, sockets and files."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from pathlib import Path

import pytest

from go_ent.engine.server import stdio
from go_ent.engine.server.stdio import Answers, Lines


async def lines_of(*chunks: bytes) -> list[str]:
    """What is read of a pipe that gets these chunks, and is closed."""
    incoming, theirs = os.pipe()
    lines = Lines(incoming)

    def write() -> None:
        for chunk in chunks:
            os.write(theirs, chunk)
        os.close(theirs)

    threading.Thread(target=write).start()
    return [line async for line in lines]  # the pipe stays open: its thread may still be reading


async def test_lines_come_whole_however_they_were_cut() -> None:
    assert await lines_of(b"a\nb\n\nc", b"d\n", "é\n".encode()[:1], "é\n".encode()[1:], b"end") == [
        "a",
        "b",
        "",
        "cd",
        "é",
        "end",
    ]


async def test_bytes_that_are_no_text_are_replaced() -> None:
    assert await lines_of(b"\xff{}\n") == ["\ufffd{}"]


async def test_a_line_of_many_chunks() -> None:
    assert [len(line) for line in await lines_of(b"x" * 3_000_000 + b"\ny\n")] == [3_000_000, 1]


async def test_a_message_without_an_end_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MOST_LINE", 4 * stdio.CHUNK)
    (line,) = await lines_of(*[b"x" * 4096] * 100)
    assert len(line) < 100 * 4096


async def test_one_of_many_small_pieces_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "CHUNK", 7)
    monkeypatch.setattr(stdio, "MOST_LINE", 5000)
    assert [len(line) for line in await lines_of(b"x" * 4900 + b"\n", b"y")] == [4900, 1]


async def test_no_more_is_read_ahead_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "AHEAD", 2)
    incoming, theirs = os.pipe()
    lines = Lines(incoming)
    os.set_blocking(theirs, False)
    written = 0
    for _ in range(200):  # until the pipe stays full
        try:
            written += os.write(theirs, b"0123456\n" * 512)
        except BlockingIOError:
            await asyncio.sleep(0.005)
    os.close(theirs)
    assert written <= 3 * stdio.CHUNK + 3 * (64 << 10)
    assert sum([len(line) + 1 async for line in lines]) == written
    os.close(incoming)


@pytest.mark.parametrize("kind", ["pipe", "socket"])
@pytest.mark.parametrize("size", [10, 5000, 1_000_000])
async def test_what_does_not_fit_is_written_while_the_others_go_on(kind: str, size: int) -> None:
    if kind == "pipe":
        theirs, ours = os.pipe()
    else:
        left, right = socket.socketpair()
        theirs, ours = left.detach(), right.detach()
    answers = Answers(ours)
    text = "é" + "x" * size + "\n"
    await answers.write(text)
    await answers.write(text)
    flushing = asyncio.ensure_future(answers.flush())
    await asyncio.sleep(0)  # the loop is not held up, though nobody reads yet
    read = b""
    while len(read) < 2 * len(text.encode()):
        read += await asyncio.to_thread(os.read, theirs, 1 << 20)
    await flushing
    assert read.decode() == 2 * text
    answers.close()
    os.close(theirs)
    os.close(ours)


async def test_answers_to_a_file(tmp_path: Path) -> None:
    file = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    answers = Answers(file)
    await answers.write("a\n")
    await answers.flush()
    os.close(file)
    assert await asyncio.to_thread((tmp_path / "out").read_text) == "a\n"


async def test_a_client_that_is_gone_is_an_error() -> None:
    theirs, ours = os.pipe()
    os.close(theirs)
    answers = Answers(ours)
    await answers.write("a\n")
    with pytest.raises(BrokenPipeError):
        await answers.flush()
    os.close(ours)
