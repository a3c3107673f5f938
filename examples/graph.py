"""A graph without a model: code, a composed tool and a command, each given what the others came to.

Run it: python -m examples.graph
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from go_ent.composer import Composer
from go_ent.engine import Engine, parse_plan

TOOL = '''
# /// tool
# name = "total"
# ///
# /// examples
# {"inputs": {"rows": [{"euros": 2}, {"euros": 3.5}]}, "result": 5.5}
# ///
def total(rows: list[dict[str, float]]) -> float:
    """The sum of all rows."""
    return sum(row["euros"] for row in rows)
'''
PLAN = {
    "name": "a report",
    "task": [
        {"id": "north", "code": "[{'euros': n * 1.5} for n in range(4)]"},
        {"id": "south", "code": "[{'euros': 10}]"},
        {"id": "sum_north", "tool": "total", "inputs": {"rows": "${north.output}"}},
        {"id": "sum_south", "tool": "total", "inputs": {"rows": "${south.output}"}},
        {"id": "report", "command": ["printf", "north ${sum_north.output}, south ${sum_south.output}"]},
    ],
}


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        async with Composer(project) as composer, Engine(project, composer=composer, trusted=True) as engine:
            await composer.compose(TOOL)
            result = await engine.execute(parse_plan(PLAN))
            print(result.status, result.output)
            for step in result.steps:
                print(f"  {step.task_id}: {step.output}")


if __name__ == "__main__":
    asyncio.run(main())
