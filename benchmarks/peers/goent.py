"""go-ent: a WebAssembly guest of its own for each run, in a worker process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from benchmarks.peers.adapter import MEMORY_MB, Outcome, Status, calling, lookup
from go_ent.sandbox import Limits, Sandbox
from go_ent.sandbox.worker.languages import Language

STATUSES: dict[str, Status] = {
    "completed": "completed",
    "timeout": "timeout",
    "cpu_limit": "timeout",
    "memory_limit": "memory",
    "crashed": "crashed",
}


class GoEnt:
    language: Language = "python"
    tool_program = calling("await tools.lookup(n=n)")
    workers = 1

    def available(self) -> str | None:
        return None

    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.box = Sandbox([lookup], Limits(memory_mb=MEMORY_MB), workers=self.workers).open()

    def program(self, code: str) -> str:
        return f"{code}\nresult"

    def run(self, code: str, inputs: Mapping[str, Any], timeout: float) -> Outcome:
        limits = {"timeout_s": timeout, "cpu_s": min(timeout, 30.0)}
        work = self.box.run(self.program(code), inputs, limits=limits, language=self.language)
        run = self.loop.run_until_complete(work)
        note = f"{run.error.kind}: {run.error.message}" if run.error else ""
        return Outcome(STATUSES.get(run.status, "error"), run.result, note)

    def close(self) -> None:
        self.box.close()
        self.loop.close()


peer = GoEnt()
