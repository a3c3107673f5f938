"""go-ent, for JavaScript: a WebAssembly guest of its own for each run, in a worker process."""

from __future__ import annotations

import asyncio
import os
import time

from benchmarks.peers.goent import GoEnt
from go_ent.sandbox.worker.languages import Language


class GoEntJavaScript(GoEnt):
    language: Language = "javascript"
    workers = os.cpu_count() or 1

    def program(self, code: str) -> str:
        return code

    def burst(self, code: str, seconds: float) -> int:
        """How often *code* is run in some seconds, with every core at work."""
        until = time.perf_counter() + seconds

        async def lane() -> int:
            count = 0
            while time.perf_counter() < until:
                assert (await self.box.run(code, language=self.language)).ok
                count += 1
            return count

        async def lanes() -> int:
            return sum(await asyncio.gather(*(lane() for _ in range(self.workers + 1))))

        return self.loop.run_until_complete(lanes())


peer = GoEntJavaScript()
