"""A budget that holds: a model behind a command, which says what it costs, and what at the most. What does not fit is
not begun.

Run it: python -m examples.budget
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from go_ent.engine import Engine, EngineConfig, Task

MODEL = "import json; print(json.dumps({'text': 'a fine answer', 'cost': 0.4}))"


async def main() -> None:
    config = EngineConfig.model_validate(
        {
            "engine": {"runtime": "cli", "command": "model"},
            "commands": {
                "model": {
                    "argv": [sys.executable, "-c", MODEL],
                    "format": "json",
                    "path": "text",
                    "cost_usd": "cost",
                    "max_cost_usd": 0.5,
                    "stdin": True,
                }
            },
            "budget": {"day": {"usd": 1.0}},
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        async with Engine(Path(folder), config=config, trusted=True) as engine:
            for number in (1, 2, 3):
                result = await engine.execute(Task(description=f"question {number}"))
                print(f"{number}: {result.status}: {result.output or result.error}")
            spent = (await engine.budget()).day
            print(f"spent today: ${spent.spent_usd:.2f} of ${spent.limit_usd:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
