"""The budget page: limits, an outlook, what spending went to, and only their own day for clients."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from go_ent.engine import Task
from go_ent.engine.budget.report import WindowReport
from go_ent.engine.console.app import Console
from go_ent.engine.console.pages.budget import outlook
from go_ent.engine.server.calls.callers import Caller
from go_ent.sandbox import Sandbox
from tests.support.agents import stand_in_config
from tests.support.console import Browser, opened, run

START = datetime(2030, 1, 1, tzinfo=UTC)


def window(spent: float, limit: float | None, reserved: float = 0.0) -> WindowReport:
    return WindowReport(
        starts_at=START,
        resets_at=START + timedelta(days=1),
        runs=1,
        spent_usd=spent,
        reserved_usd=reserved,
        limit_usd=limit,
        spent_tokens=0,
        reserved_tokens=0,
        limit_tokens=None,
        estimated_usd=0.0,
        estimated_tokens=0,
        unknown_costs=0,
        overshoot_usd=0.0,
        forced=0,
    )


@pytest.mark.parametrize(
    ("spent", "limit", "reserved", "hours", "expected"),
    [
        (1.0, 3.0, 0.0, 6, (4.0, 18.0)),  # a quarter of the day: four times as much, and the limit after three quarters
        (1.0, 3.0, 1.0, 6, (4.0, 12.0)),  # what is reserved is gone, too
        (1.0, 5.0, 0.0, 6, (4.0, None)),
        (1.0, None, 0.0, 6, (4.0, None)),
        (4.0, 3.0, 0.0, 6, (16.0, 6.0)),  # it is reached now
        (0.0, 3.0, 0.0, 6, None),
        (1.0, 3.0, 0.0, 0.5, None),  # too early to say
    ],
)
def test_the_outlook(
    spent: float, limit: float | None, reserved: float, hours: float, expected: tuple[float, float | None] | None
) -> None:
    now = START.timestamp() + hours * 3600
    made = outlook(window(spent, limit, reserved), now)
    if expected is None:
        assert made is None
        return
    assert made is not None
    assert made.usd == pytest.approx(expected[0])
    at = None if made.runs_out is None else round((made.runs_out - START.timestamp()) / 3600, 6)
    assert at == expected[1]


async def test_calls_of_tools_are_counted_by_tool_and_by_day(console: Console, browser: Browser) -> None:
    await run(console, "1 + 1")
    page = (await browser.get("/budget")).text
    assert "Today" in page
    assert "This month" in page
    assert "no limit" in page
    for by in ("runtime", "model", "role", "strategy", "tool", "day"):
        answer = await browser.get(f"/budget?by={by}&time=24h")
        assert answer.status_code == 200
        page = answer.text
        assert f">no {by}<" in page or by in ("runtime", "strategy", "day"), (
            "code has no role, and none that is unknown"
        )
        assert ">unknown<" not in page
    assert (await browser.get("/budget?by=<script>&time=9")).status_code == 200


async def test_what_an_agent_cost_is_shown_against_its_limit_and_by_role(project: Path, shared_box: Sandbox) -> None:
    config = f"[budget]\nday = {{ usd = 0.02 }}\n{stand_in_config('edit', project)}"
    (project / ".go-ent" / "config.toml").write_text(config)
    async with opened(project, shared_box, trusted=True) as console:
        task = Task(description="Write it", role="developer", strategy="single", max_cost_usd=0.015)
        assert (await console.engine.execute(task)).steps[0].cost_usd == pytest.approx(0.01008)
        browser = await Browser(console).sign_in()
        page = (await browser.get("/budget?by=role")).text
        assert "$0.0101 of $0.0200" in page
        assert re.search(r"developer</bdi></td><td[^>]*><span title=\"\$0.010080\">\$0.0101<", page)
        assert '<rect width="50.40" height="1"/>' in page  # of the day's limit
        assert '<rect width="100.00" height="1"/>' in page  # all of it was for one role
        await browser.close()


async def test_a_client_sees_its_own_day_alone(console: Console) -> None:
    browser = await Browser(console).sign_in(Caller("someone"))
    answer = await browser.get("/budget?by=tool")
    assert answer.status_code == 404
    assert "Where it goes" not in answer.text
    await browser.close()
