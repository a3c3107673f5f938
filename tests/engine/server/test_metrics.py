"""`/metrics`: the text format as Prometheus reads it, with figures that are true."""

from __future__ import annotations

import re
from pathlib import Path

from go_ent.composer import Composer
from go_ent.engine import Engine
from go_ent.engine.core.models import Event, Task
from go_ent.engine.server import make_server
from go_ent.engine.server.http.metrics import Metrics
from go_ent.sandbox import Limits

LINE = re.compile(r'([a-z_]+)((?:\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\})?) (-?[0-9][0-9.e+-]*)')


def parse(text: str) -> dict[str, float]:
    """Series and their values; anything that is not the format fails."""
    found: dict[str, float] = {}
    kinds: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds, "a metric is told once"
            kinds[name] = kind
            continue
        match = LINE.fullmatch(line)
        assert match is not None, line
        family = next(
            (name for name in (match[1], re.sub("_(bucket|sum|count)$", "", match[1])) if name in kinds), None
        )
        assert family is not None, f"{match[1]} has no TYPE"
        if kinds[family] == "counter":
            assert family.endswith("_total")
        series = match[1] + match[2]
        assert series not in found
        found[series] = float(match[3])
    return found


async def test_what_was_done_is_counted(project: Path) -> None:
    def half(n: int) -> float:
        """Half of it."""
        return n / 2

    async with (
        Composer(project, tools=[half], workers=2) as composer,
        Engine(project, composer=composer, mode="mcp") as engine,
    ):
        metrics = Metrics(make_server(composer, engine), composer, engine, '1"2\n3')
        await composer.code.execute("await tools.half(n=2)")
        await composer.code.execute("await tools.half(n='two')")
        await composer.code.execute("await tools.other.tool()")
        await composer.code.execute("while True: pass", limits=Limits(timeout_s=0.2))
        assert (await engine.execute(Task(code="1 + 1"))).ok
        engine.listeners[-1](Event(kind="step", execution_id="x", at=0.0, data={"status": 'made"up'}))
        metrics.answered(200)
        metrics.answered(0)
        found = parse(await metrics.text())
    assert found['go_ent_runs_total{kind="code",status="completed"}'] == 2
    assert found['go_ent_runs_total{kind="code",status="error"}'] == 2
    assert found['go_ent_runs_total{kind="code",status="timeout"}'] == 1
    assert found['go_ent_tool_calls_total{outcome="ok"}'] == 1
    assert found['go_ent_tool_calls_total{outcome="error"}'] == 1
    assert found['go_ent_tool_calls_total{outcome="not_granted"}'] == 1
    assert (
        found['go_ent_run_seconds_count{kind="code"}'] == found['go_ent_run_seconds_bucket{kind="code",le="+Inf"}'] == 5
    )
    assert found['go_ent_run_seconds_sum{kind="code"}'] >= 0.2
    assert found['go_ent_run_seconds_bucket{kind="code",le="300"}'] == 5, "bounds are written as they were"
    assert not [series for series in found if "_created" in series]
    buckets = [value for series, value in found.items() if series.startswith('go_ent_run_seconds_bucket{kind="code"')]
    assert buckets == sorted(buckets), "each bucket holds those before it"
    assert found['go_ent_steps_total{status="completed"}'] == 1
    assert found['go_ent_steps_total{status="other"}'] == 1, "what is none of ours makes no series of its own"
    assert found['go_ent_executions{status="completed"}'] == 1
    assert found["go_ent_executions_running"] == 0
    assert 1 <= found["go_ent_workers"] <= 4
    assert found["go_ent_budget_spent_usd"] == 0
    assert found["process_resident_memory_bytes"] > 1 << 20
    assert found["process_open_fds"] > 3
    assert found['go_ent_http_requests_total{code="200"}'] == 1
    assert found['go_ent_info{version="1\\"2\\n3"}'] == 1


async def test_an_account_that_can_not_be_read_takes_nothing_else_with_it(project: Path) -> None:
    (project / ".go-ent" / "budget.db").write_text("no database")

    async with Composer(project) as composer, Engine(project, composer=composer, mode="mcp") as engine:
        found = parse(await Metrics(make_server(composer, engine), composer, engine, "1").text())
    assert "go_ent_budget_spent_usd" not in found
    assert found["go_ent_executions_running"] == 0
