"""One table of outcomes: what a run's status means elsewhere."""

from __future__ import annotations

from types import MappingProxyType

from sandbox.run import Status

EXIT_CODES: MappingProxyType[Status, int] = MappingProxyType(
    {
        "completed": 0,
        "error": 1,
        "refused": 3,
        "timeout": 4,
        "cpu_limit": 5,
        "fuel_limit": 6,
        "memory_limit": 7,
        "call_limit": 8,
        "result_limit": 9,
        "paused": 10,
        "crashed": 11,
        "interrupted": 130,
    }
)
