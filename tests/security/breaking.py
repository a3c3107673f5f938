"""What the attacks share: ways past the policy, and a host with something to lose.

The policy is not the wall. `BREAK_OUT` and `PEEK` get past it on purpose, so that what is behind it can be attacked.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from go_ent.sandbox import Run, Sandbox

# The interpreter itself, its modules, and the one door to the host.
BREAK_OUT = """
import asyncio, operator
interpreter = operator.attrgetter("base_events.sys")(asyncio)
modules = operator.attrgetter("modules")(interpreter)
door = modules["wit_world"]
runner = modules["guest.runner"]
real = modules["builtins"]
"""
LINES = BREAK_OUT.count("\n")  # by which the lines of what follows it are off

# All of the guest's memory as one bytearray: a forged LOAD_CONST takes bytes of our own for an object of the
# interpreter's.
PEEK = """
import struct
ops = operator.attrgetter("opmap")(modules["opcode"])
basic = operator.attrgetter("__basicsize__")
def address(data):
    return id(data) + basic(bytes) - 1
def nothing():
    pass
fake = struct.pack("<8I", 1 << 20, id(bytearray), 0x7FFFFFFF, 0x7FFFFFFF, 1, 1, 0, 0)
pointer = struct.pack("<I", address(fake))
constants = (None,)
index = (address(pointer) - id(constants) - basic(tuple)) % 2**32 // 4
opcodes = [(ops["RESUME"], 0)]
opcodes += [(ops["EXTENDED_ARG"], index >> shift & 255) for shift in (24, 16, 8)]
opcodes += [(ops["LOAD_CONST"], index & 255), (ops["RETURN_VALUE"], 0)]
forged = operator.attrgetter("__code__")(nothing).replace(co_code=bytes(sum(opcodes, ())), co_consts=constants)
memory = real.eval(forged)  # its item n is the byte at n + 1
"""


class Host:
    """Things of the host that a guest must not reach, and whether one has."""

    def __init__(self, folder: Path) -> None:
        self.secret = f"canary-{secrets.token_hex(16)}"
        self.file = folder / "secret.txt"
        self.file.write_text(self.secret)
        self.marker = folder / "made-by-a-guest"
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(("127.0.0.1", 0))
        self.datagrams.setblocking(False)

    @property
    def inputs(self) -> dict[str, Any]:
        """Where it all is: the attacks know, and need not look for it."""
        tcp, udp = self.listener.getsockname()[1], self.datagrams.getsockname()[1]
        return {
            "secret_file": str(self.file),
            "marker": str(self.marker),
            "tcp_port": tcp,
            "udp_port": udp,
            "variable": "GO_ENT_CANARY",
        }

    def untouched(self, run: Run) -> None:
        assert self.secret not in run.model_dump_json()
        assert self.file.read_text() == self.secret
        assert not self.marker.exists()
        with pytest.raises(BlockingIOError):
            self.listener.accept()
        with pytest.raises(BlockingIOError):
            self.datagrams.recv(1)

    def close(self) -> None:
        self.listener.close()
        self.datagrams.close()


@contextmanager
def a_host(folder: Path) -> Iterator[Host]:
    host = Host(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GO_ENT_CANARY", host.secret)
        try:
            yield host
        finally:
            host.close()


def goes_on(box: Sandbox) -> None:
    """Nobody else is affected."""
    run = box.run_sync("import json\n[6 * 7, json.dumps([len('ab')]), await tools.add(1, 2)]")
    assert run.result == [42, "[2]", 3], run.error
