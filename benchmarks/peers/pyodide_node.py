"""Pyodide under node: CPython in WebAssembly, in a node process of its own for each run.

It is loaded from its memory snapshot, an experimental option that makes loading several times quicker. Nothing is granted by
way of environment, and V8 limits the memory; node's own permission model can't be used, because Pyodide does not load
under it (`ERR_ACCESS_DENIED: process.binding`).
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.peers.adapter import MEMORY_MB, Outcome, calling, error_line, lookup
from benchmarks.peers.environments import Missing, node_home

SCRIPT = Path(__file__).parent / "node" / "run.mjs"
LOAD_S = 60.0
LINE_BYTES = 4 << 20


class Ended(Exception):
    """The process is gone, or has said more than a line may be long."""


class Channel:
    """Lines of JSON from and to the node process."""

    def __init__(self) -> None:
        self.inward, self.theirs_out = os.pipe()
        self.theirs_in, self.outward = os.pipe()
        self.held = b""

    def hand_over(self) -> None:
        """The process has its ends; keep ours alone."""
        os.close(self.theirs_out)
        os.close(self.theirs_in)

    def tell(self, message: Any) -> None:
        os.write(self.outward, json.dumps(message).encode() + b"\n")

    def hear(self, deadline: float) -> dict[str, Any]:
        while b"\n" not in self.held:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.inward], [], [], left)[0]:
                raise TimeoutError
            piece = os.read(self.inward, 1 << 16)
            self.held += piece
            if not piece or len(self.held) > LINE_BYTES:
                raise Ended
        line, _, self.held = self.held.partition(b"\n")
        said = json.loads(line)
        return said if isinstance(said, dict) else {}

    def close(self) -> None:
        os.close(self.inward)
        os.close(self.outward)


class PyodideNode:
    tool_program = calling("lookup(n)")

    def available(self) -> str | None:
        try:
            node_home()
        except Missing as error:
            return str(error)
        return None

    def start(self) -> None:
        self.home = node_home()
        self.node = self.home / "node_modules" / "node" / "bin" / "node"
        if not (self.home / "snapshot.bin").exists():
            subprocess.run(
                [self.node, SCRIPT, self.home, "snapshot"], env={}, check=True, timeout=120, stdout=subprocess.DEVNULL
            )

    def run(self, code: str, inputs: Mapping[str, Any], timeout: float) -> Outcome:
        channel = Channel()
        # The channel's descriptors become 3 and 4 of the process: a shell is the plainest way to say so.
        command = f'exec 3>&{channel.theirs_out} 4<&{channel.theirs_in}; exec "$@"'
        process = subprocess.Popen(
            [
                "/bin/sh",
                "-c",
                command,
                "sh",
                self.node,
                f"--wasm-max-mem-pages={MEMORY_MB * 16}",
                SCRIPT,
                self.home,
                "run",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            pass_fds=(channel.theirs_out, channel.theirs_in),
        )
        channel.hand_over()
        try:
            channel.hear(time.monotonic() + LOAD_S)
            deadline = time.monotonic() + timeout
            channel.tell({"code": code, "inputs": dict(inputs)})
            while "call" in (said := channel.hear(deadline)):
                channel.tell({"answer": lookup(said["call"])})
        except TimeoutError:
            return Outcome("timeout")
        except (Ended, BrokenPipeError):
            return Outcome("crashed", note="the process ended")
        finally:
            process.kill()
            process.wait()
            channel.close()
        if "result" in said:
            return Outcome("completed", json.loads(said["result"]))
        note = error_line(str(said.get("error")))
        return Outcome("memory" if note.startswith("MemoryError") else "error", note=note)

    def close(self) -> None:
        pass


peer = PyodideNode()
