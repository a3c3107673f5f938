"""pyeryx: CPython in WebAssembly in the host's process, fresh for each `execute`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.peers.adapter import MEMORY_MB, Outcome, calling, error_line, lookup, missing, with_inputs


class Eryx:
    tool_program = calling("await lookup(n=n)")

    def available(self) -> str | None:
        return missing("eryx", "pyeryx")

    def start(self) -> None:
        self.boxes: dict[float, Any] = {}

    def box(self, timeout: float) -> Any:
        """The sandbox of that time limit, which belongs to the sandbox and not to a run."""
        import eryx

        if timeout not in self.boxes:
            limits = eryx.ResourceLimits(execution_timeout_ms=int(timeout * 1000), max_memory_bytes=MEMORY_MB << 20)
            callbacks = [{"name": "lookup", "fn": lookup, "description": "The host's tool."}]
            self.boxes[timeout] = eryx.Sandbox(resource_limits=limits, callbacks=callbacks)
        return self.boxes[timeout]

    def run(self, code: str, inputs: Mapping[str, Any], timeout: float) -> Outcome:
        import eryx

        try:
            done = self.box(timeout).execute(with_inputs(code, inputs))
        except eryx.TimeoutError as error:
            return Outcome("timeout", note=str(error))
        except eryx.ResourceLimitError as error:
            return Outcome("memory", note=str(error))
        except eryx.EryxError as error:
            said = error_line(str(error))
            return Outcome("memory" if said.startswith("MemoryError") else "error", note=said)
        if done.result_json is None:
            return Outcome("error", note=done.result_error or "there is no result")
        return Outcome("completed", done.result)

    def close(self) -> None:
        self.boxes.clear()


peer = Eryx()
