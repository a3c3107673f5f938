"""A Python subprocess for each run, with no environment, in an empty folder, with limits of the operating system.

It keeps a program from harming the host by accident. Whatever this user may do, the program may do.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from benchmarks.peers.adapter import (
    MEMORY_MB,
    OUTPUT_BYTES,
    Outcome,
    error_line,
    last_line,
    printing_result,
    with_inputs,
)

LIMITS = f"""\
import resource
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY_MB << 20},) * 2)
resource.setrlimit(resource.RLIMIT_FSIZE, ({OUTPUT_BYTES},) * 2)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
del resource
"""


class SubprocessPython:
    tool_program = None

    def available(self) -> str | None:
        return None

    def start(self) -> None:
        pass

    def run(self, code: str, inputs: Mapping[str, Any], timeout: float) -> Outcome:
        program = LIMITS + f"exec({with_inputs(printing_result(code), inputs)!r})"
        with (
            tempfile.TemporaryDirectory() as folder,
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as errors,
        ):
            process = subprocess.Popen(
                [sys.executable, "-I", "-c", program],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                cwd=folder,
                env={},
                start_new_session=True,
            )
            try:
                code_of_exit = process.wait(timeout)
            except subprocess.TimeoutExpired:
                return Outcome("timeout")
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            output.seek(0)
            errors.seek(0)
            said = error_line(errors.read().decode(errors="replace"))
            if code_of_exit == 0:
                try:
                    return Outcome("completed", last_line(output.read().decode(errors="replace")))
                except json.JSONDecodeError:
                    return Outcome("error", note="it printed no result")
            if code_of_exit < 0:
                return Outcome("crashed", note=f"signal {-code_of_exit}")
            return Outcome("memory" if said.startswith("MemoryError") else "error", note=said)

    def close(self) -> None:
        pass


peer = SubprocessPython()
