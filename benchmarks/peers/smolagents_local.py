"""smolagents' LocalPythonExecutor: walks the program's syntax tree in the host's interpreter, with a list of imports.

Its documentation says that it is not a security sandbox, and offers remote executors for untrusted code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.peers.adapter import HARMLESS_MODULES, Outcome, calling, lookup, missing


class SmolagentsLocal:
    tool_program = calling("lookup(n)")

    def available(self) -> str | None:
        return missing("smolagents", "smolagents")

    def start(self) -> None:
        from smolagents.local_python_executor import LocalPythonExecutor

        self.executor = LocalPythonExecutor

    def run(self, code: str, inputs: Mapping[str, Any], timeout: float) -> Outcome:
        from smolagents.local_python_executor import ExecutionTimeoutError

        executor = self.executor(HARMLESS_MODULES, additional_functions={"lookup": lookup}, timeout_seconds=timeout)
        executor.send_variables(dict(inputs))
        executor.send_tools({})
        try:
            return Outcome("completed", executor(f"{code}\nresult").output)
        except ExecutionTimeoutError as error:
            return Outcome("timeout", note=str(error))
        except BaseException as error:
            return Outcome("memory" if "MemoryError" in str(error) else "error", note=str(error))

    def close(self) -> None:
        pass


peer = SmolagentsLocal()
