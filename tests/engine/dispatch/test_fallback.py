"""Fallback between programs: the engine over stand-ins that replay what the real ones were recorded to say."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from go_ent.engine import Engine, EngineConfig, Task, TaskResult
from tests.support.agents import stand_in


def run(tmp_path: Path, claude: str, opencode: str, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> TaskResult:
    monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "user"))
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    runners = {
        "claude-code": stand_in("claude", claude, tmp_path),
        "open-code": stand_in("opencode", opencode, tmp_path),
    }

    async def main() -> TaskResult:
        async with Engine(project, config=EngineConfig.model_validate({"runners": runners}), trusted=True) as engine:
            return await engine.execute(
                Task.model_validate({"description": "Write it", "strategy": "single", **fields})
            )

    return asyncio.run(main())


def test_one_that_dies_in_the_middle_is_stood_in_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(tmp_path, "terminated", "serve_write", monkeypatch)
    step = result.steps[0]
    assert (result.status, step.runtime) == ("COMPLETE", "open-code")
    first, second = step.attempts
    assert (first.runtime, first.failure, second.runtime, second.failure) == ("claude-code", "crash", "open-code", None)
    assert first.error
    given = [json.loads(line) for line in (tmp_path / "claude.log").read_text().splitlines()]
    assert any("Write it" in line.get("stdin", "") for line in given)
    assert "Write it" in (tmp_path / "opencode.log").read_text()


@pytest.mark.parametrize(
    ("says", "failure"), [("error_401", "auth"), ("error_429", "rate_limit"), ("refused", "unavailable")]
)
def test_an_error_of_its_model_is_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, failure: str
) -> None:
    result = run(tmp_path, says, "serve_write", monkeypatch)
    assert (result.status, result.steps[0].attempts[0].failure) == ("COMPLETE", failure)


@pytest.mark.parametrize(("says", "failure"), [("error_400", "task"), ("max_budget", "budget"), ("nothing", "empty")])
def test_a_failure_of_the_task_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, failure: str) -> None:
    result = run(tmp_path, says, "serve_write", monkeypatch)
    assert not result.ok
    assert [attempt.failure for attempt in result.steps[0].attempts] == [failure]


def test_the_other_way_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(tmp_path, "answer", "serve_401", monkeypatch, runtime="open-code")
    assert (result.status, result.steps[0].runtime) == ("COMPLETE", "claude-code")
    assert [attempt.failure for attempt in result.steps[0].attempts] == ["auth", None]
    assert result.metrics is not None
    assert result.metrics.cost_usd is not None
