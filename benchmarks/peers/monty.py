"""pydantic-monty: an interpreter of its own for a subset of Python, in a pool of worker processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.peers.adapter import MEMORY_MB, OUTPUT_BYTES, Outcome, Status, calling, lookup, missing


class MontyPeer:
    tool_program = calling("lookup(n)")

    def available(self) -> str | None:
        return missing("pydantic_monty", "pydantic-monty")

    def start(self) -> None:
        from pydantic_monty import Monty

        self.pool = Monty(max_processes=1)
        self.pool.__enter__()

    def run(self, code: str, inputs: Mapping[str, Any], timeout: float) -> Outcome:
        from pydantic_monty import CollectString, MontyCrashedError, MontyError, MontyRuntimeError, ResourceLimits

        limits = ResourceLimits(
            max_feed_duration_secs=timeout, max_total_sleep_secs=timeout, max_memory=MEMORY_MB << 20
        )
        try:
            with self.pool.checkout(limits=limits) as session:
                value = session.feed_run(
                    f"{code}\nresult",
                    inputs=dict(inputs),
                    external_lookup={"lookup": lookup},
                    print_callback=CollectString(OUTPUT_BYTES),
                )
        except MontyCrashedError as error:
            return Outcome("timeout" if error.timed_out else "crashed", note=str(error))
        except MontyRuntimeError as error:
            inner = error.exception()
            limit: Status = "timeout" if isinstance(inner, TimeoutError) else "memory"
            return Outcome(
                limit if isinstance(inner, TimeoutError | MemoryError) else "error", note=error.display("type-msg")
            )
        except MontyError as error:
            return Outcome("error", note=str(error))
        return Outcome("completed", value)

    def close(self) -> None:
        self.pool.__exit__(None, None, None)


peer = MontyPeer()
