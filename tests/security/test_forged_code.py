"""A worker that was taken over hands in compiled code for others to run."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys

import pytest

from go_ent.sandbox import Sandbox
from go_ent.sandbox.host.zygote import Zygote
from go_ent.sandbox.worker.orders import Orders
from tests.security.breaking import BREAK_OUT
from tests.security.corpus import attack
from tests.support import ROOT

# Speaks the language of a worker, and says what it likes.
TAKEN_OVER = """
import socket, sys
sys.path.insert(0, sys.argv[1])
from go_ent.sandbox.worker import wire
channel = wire.Channel(socket.socket(fileno=int(sys.argv[2])))
channel.send(wire.READY)
while True:
    kind, payload = channel.receive()
    if kind == wire.RUN:
        channel.send(wire.KEEP, sys.argv[3].encode())
        channel.send(wire.DONE, wire.DONE_HEAD.pack(0, 0, 0, 0, wire.AT_ONCE) + b'{"status":"completed"}\\x00"from a broken worker"\\x00')
        channel.send(wire.READY)
"""  # noqa: E501


class HalfTaken(Zygote):
    """A zygote of which the first workers are not its own."""

    def __init__(self, artefact: str, forged: str, taken: int) -> None:
        super().__init__(Orders(artefact))
        self.forged = forged
        self.taken = taken
        self.others: list[subprocess.Popen[bytes]] = []

    def fork(self, sock: socket.socket, output: int) -> None:
        if not self.taken:
            return super().fork(sock, output)
        self.taken -= 1
        command = [sys.executable, "-c", TAKEN_OVER, str(ROOT), str(sock.fileno()), self.forged]
        self.others.append(subprocess.Popen(command, pass_fds=[sock.fileno()]))
        return None

    def close(self) -> None:
        super().close()
        for other in self.others:
            other.kill()
            other.wait()


@pytest.fixture(scope="module")
def forged(box: Sandbox) -> str:
    """The compiled form of a source that the policy would refuse, made by a guest that got past it."""
    forge = (
        BREAK_OUT
        + "import base64\ncode = real.compile('import posix\\nx = posix.getcwd()', 'code.py', 'exec')\n"
        + "code = code.replace(**{'co_' + 'names': ('posix', 'getcwd', '<result>')})\n"
        + "base64.b64encode(modules['marshal'].dumps(code)).decode()"
    )
    code = box.run_sync(forge).result
    assert isinstance(code, str)
    return code


@attack("worker", "forged code, handed in for other workers")
async def test_what_a_worker_hands_in_is_run_by_no_other(forged: str, box: Sandbox) -> None:
    source = "'from the ' + 'source'"

    broken = Sandbox(workers=4, image=box.image)
    broken._zygotes["plain"] = HalfTaken(str(broken.image.artefact("plain")), forged, taken=1)
    async with broken:
        _, *others = await asyncio.gather(*(broken.run(source) for _ in range(4)))
        results = [run.result for run in [*others, *[await broken.run(source) for _ in range(4)]]]
    assert "/" not in json.dumps(results)
    assert results.count("from the source") >= 6


@attack("worker", "forged code, confirmed by as many broken workers as there are")
async def test_no_number_of_broken_workers_makes_code_true(forged: str, box: Sandbox) -> None:
    """Code comes from workers that compile and do nothing else: those that run anything are not even heard."""
    source = "'from the ' + 'source'"
    broken = Sandbox(workers=2, image=box.image)
    broken._zygotes["plain"] = zygote = HalfTaken(str(broken.image.artefact("plain")), forged, taken=2)
    async with broken:
        for _ in range(6):
            await broken.run(source)
        zygote.taken = 0
        runs = [await broken.run(source) for _ in range(6)]
        assert {run.result for run in runs if run.ok} == {"from the source"}  # a broken one may be left, and crash
        assert runs[-1].ok


@attack("state", "code handed in by a run for its own source")
def test_a_run_hands_in_nothing(box: Sandbox, forged: str) -> None:
    source = BREAK_OUT + f"door.keep('{forged}')\nlen('{id(box)}')"
    assert [box.run_sync(source).result for _ in range(4)] == [len(str(id(box)))] * 4


def test_code_that_comes_again_is_compiled_once(box: Sandbox) -> None:
    """By a worker of its own, when it comes for the second time."""
    source = f"[{id(box)}, 1]"
    before = len(box._codes._codes)
    kept = []
    for _ in range(3):
        assert box.run_sync(source).result == [id(box), 1]
        kept.append(len(box._codes._codes) - before)
    assert kept == [0, 1, 1]


def test_code_that_can_not_be_compiled_is_tried_once(box: Sandbox) -> None:
    source = f"import os\nos.system('{id(box)}')"
    before = len(box._codes._codes)
    assert [box.run_sync(source).status for _ in range(3)] == ["refused"] * 3
    assert len(box._codes._codes) == before
