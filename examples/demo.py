"""What `make demo` shows: code over two tools and what it used, escapes that are refused, the same saved as a tool, and
a graph.

None of it needs a model or an agent program.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from go_ent.composer import Composer
from go_ent.engine import Engine, parse_plan
from go_ent.sandbox import Limits, Run, Sandbox

ORDERS = {"ann": [12.5, 30.0], "bob": [7.25], "cid": [99.0, 1.0, 5.5]}

COMPOSED = """\
import asyncio

names = await tools.customers()
totals = await asyncio.gather(*[tools.orders.of(name=name) for name in names])
ranked = sorted(zip(names, map(sum, totals)), key=lambda pair: -pair[1])
print(f"asked for {len(names)} customers, all at once")
[{"name": name, "total": total} for name, total in ranked[:top]]
"""

SAVED = """\
# /// tool
# name = "best_customers"
# ///
# /// examples
# {"inputs": {"top": 1}, "result": ["ann"], "calls": [
#   {"tool": "customers", "result": ["ann", "bob"]},
#   {"tool": "orders.of", "arguments": {"name": "ann"}, "result": [5, 1]},
#   {"tool": "orders.of", "arguments": {"name": "bob"}, "result": [2]}]}
# ///
import asyncio


async def best_customers(top: int = 2) -> list[str]:
    \"\"\"The names of those who ordered most.\"\"\"
    names = await tools.customers()
    totals = await asyncio.gather(*[tools.orders.of(name=name) for name in names])
    return sorted(names, key=lambda name: -sum(totals[names.index(name)]))[:top]
"""

ESCAPES = {
    "a module": "import subprocess\nsubprocess.run(['id'])",
    "a file": "open('/etc/passwd').read()",
    "the interpreter": "().__class__.__base__.__subclasses__()",
    "for ever": "while True: pass",
    "all memory": "hoard = []\nwhile True: hoard.append('x' * 10**6)",
}


def customers() -> list[str]:
    """The names of all customers."""
    return list(ORDERS)


async def orders_of(name: str) -> list[float]:
    """What a customer has ordered."""
    await asyncio.sleep(0.1)
    return ORDERS[name]


def show(title: str, code: str, run: Run) -> None:
    print(f"\n── {title}")
    for line in code.splitlines():
        print(f"   │ {line}")
    if run.stdout:
        print(f"   stdout  {run.stdout.strip()}")
    print(f"   status  {run.status}")
    if run.result is not None:
        print(f"   result  {json.dumps(run.result)}")
    if run.error is not None:
        print(f"   error   {run.error.message}")
        if run.error.hint:
            print(f"   hint    {run.error.hint}")
    usage = run.usage
    memory = usage.memory_peak_bytes / 2**20
    print(
        f"   usage   {usage.wall_ms:.1f} ms wall, {usage.cpu_ms:.1f} ms CPU, {memory:.0f} MB, "
        f"{usage.tool_calls} tool calls"
    )


async def compose() -> bool:
    """The same as a tool that lasts: checked, its example run offline, saved, called by name."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        (project / ".go-ent").mkdir()
        (project / ".go-ent" / "config.toml").write_text('[grants]\nallow = ["orders.*"]\n')
        tools = {"customers": customers, "orders": {"of": orders_of}}
        async with Composer(project, tools=tools) as composer:
            print("\n── the same, saved as a composed tool")
            saved = await composer.compose(SAVED)
            needs = ", ".join(saved.interface.requires)
            print(f"   saved   {saved.name} version {saved.version}, {saved.examples} example passed, requires {needs}")
            result = await composer.call("best_customers", top=2)
            print(f"   result  {json.dumps(result)}")
            run = await composer.run("best_customers", grants=["customers"])
            print(f"   with a narrower grant: {run.error.message if run.error else run.status}")
            if result != ["cid", "ann"] or run.status != "error":
                return False
            return await engine(project, composer)


async def engine(project: Path, composer: Composer) -> bool:
    """A graph of a program, the composed tool and code: its outputs passed on, one failure, and the rest all the
    same.
    """
    plan = parse_plan(
        {
            "name": "weekly report",
            "task": [
                {"id": "count", "command": ["printf", "2"]},
                {"id": "best", "tool": "best_customers", "inputs": {"top": "${count.output}"}},
                {
                    "id": "report",
                    "code": "'best customers: ' + ', '.join(names)",
                    "inputs": {"names": "${best.output}"},
                },
                {"id": "mail", "command": ["false"], "depends_on": ["report"]},
                {"id": "archive", "code": "'archived'", "depends_on": ["mail"]},
            ],
        }
    )
    print("\n── a graph: a program, the composed tool, code; one task fails on purpose")
    async with Engine(project, composer=composer) as host:
        result = await host.execute(plan)
        for step in result.steps:
            print(f"   {step.task_id:<8} {step.status:<10} {step.error or step.output}")
        state = await host.status(result.execution_id)
        print(
            f"   result  {result.status}; recorded as {state.status}, to be resumed with go-ent resume {state.id[:18]}…"
        )
        statuses = [step.status for step in result.steps]
        return statuses == ["completed", "completed", "completed", "failed", "skipped"] and result.status == "PARTIAL"


async def main() -> int:
    tools = {"customers": customers, "orders": {"of": orders_of}}
    async with Sandbox(tools, limits=Limits(cpu_s=1, timeout_s=5)) as box:
        run = await box.run(COMPOSED, inputs={"top": 2})
        show("tools combined in the sandbox: three calls of 100 ms each, concurrently", COMPOSED, run)
        expected = run.result == [{"name": "cid", "total": 105.5}, {"name": "ann", "total": 42.5}]
        for title, code in ESCAPES.items():
            run = await box.run(code)
            show(f"an escape: {title}", code, run)
            expected = expected and run.status != "completed"
    expected = expected and await compose()
    print("\nall as it should be" if expected else "\nsomething is wrong")
    return 0 if expected else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
