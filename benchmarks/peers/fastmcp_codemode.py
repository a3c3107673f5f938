"""FastMCP's CodeMode: its `execute` tool, called by a client in the same process; the code runs in pydantic-monty."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from typing import Any

from benchmarks.peers.adapter import MEMORY_MB, Outcome, calling, lookup, missing


class CodeModePeer:
    client: Any
    tool_program = calling("(await call_tool('lookup', {'n': n}))['result']")

    def available(self) -> str | None:
        return missing("fastmcp.experimental.transforms.code_mode", "fastmcp") or missing(
            "pydantic_monty", "pydantic-monty"
        )

    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self._await(self._open())

    async def _open(self) -> None:
        from fastmcp import Client, FastMCP
        from fastmcp.experimental.transforms.code_mode import CodeMode, MontySandboxProvider

        server = FastMCP("peer")
        server.tool(lookup)
        limits: Any = {"max_feed_duration_secs": 60.0, "max_memory": MEMORY_MB << 20}
        server.add_transform(CodeMode(sandbox_provider=MontySandboxProvider(limits=limits), max_tool_calls=1000))
        client: Any = Client(server)
        self.client = await client.__aenter__()

    def run(self, code: str, inputs: Mapping[str, Any], timeout: float) -> Outcome:
        given = "".join(f"{name} = {value!r}\n" for name, value in inputs.items())
        try:
            # In a dictionary: a text by itself comes back as it is, and can't be told from JSON.
            outcome: Outcome = self._await(self._run(f"{given}{code}\n{{'result': result}}", timeout))
            return outcome
        except TimeoutError:
            return Outcome("timeout")

    async def _run(self, code: str, seconds: float) -> Outcome:
        async with asyncio.timeout(seconds + 1):
            answer = await self.client.call_tool("execute", {"code": code}, raise_on_error=False)
        text = "".join(getattr(part, "text", "") for part in answer.content)
        if answer.is_error:
            over = "time limit" in text or "TimeoutError" in text
            memory = "MemoryError" in text
            return Outcome("timeout" if over else "memory" if memory else "error", note=text)
        structured = answer.structured_content
        if not isinstance(structured, dict) or "result" not in structured:
            return Outcome("error", note=f"there is no result: {text[:200]}")
        return Outcome("completed", structured["result"])

    def _await(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def close(self) -> None:
        self._await(self.client.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


peer = CodeModePeer()
