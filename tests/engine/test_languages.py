"""JavaScript and TypeScript wherever code is given: on record, resumed, in sessions, plans, the shell and over MCP."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from go_ent.composer import Composer
from go_ent.composer.errors import BadName
from go_ent.engine import Engine
from go_ent.engine.core.models import Task
from go_ent.engine.guest_runs.runs import GuestOrder
from tests.support.shell import go_ent


def test_exec_takes_the_language_or_the_ending_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "double.ts").write_text("const twice = (n: number): number => n * 2;\ntwice(n)")
    named = go_ent("exec", str(tmp_path / "double.ts"), "--input", '{"n": 21}')
    assert (named.returncode, named.stdout) == (0, b"42\n")
    said = go_ent("exec", "-l", "js", "-c", "console.log('out'); [1, 2].map((x) => x + 1)")
    assert (said.returncode, said.stdout) == (0, b"out\n[2,3]\n")
    unknown = go_ent("exec", "-l", "ruby", "-c", "1")
    assert unknown.returncode == 2
    assert b"there are python, js and ts" in unknown.stderr


def test_code_mode_runs_it_and_keeps_sessions_apart(tmp_path: Path) -> None:
    async def main() -> None:
        async with Composer(tmp_path) as composer:
            run = await composer.code.execute("const x: number = 2; x + 1", language="typescript")
            assert run.result == 3
            await composer.code.execute("var kept = 5", language="javascript", session="one")
            again = await composer.code.execute("kept + 1", language="javascript", session="one")
            assert again.result == 6
            wrong = await composer.code.execute("await tools.nothing()", language="javascript")
            assert wrong.error is not None
            assert wrong.error.hint == "available: none", "questions about tools are no tools"
            with pytest.raises(BadName, match="speaks javascript"):
                await composer.code.execute("1", session="one")

    asyncio.run(main())


def test_a_task_of_a_plan_says_its_language(tmp_path: Path) -> None:
    async def main() -> None:
        async with Engine(tmp_path) as engine:
            done = await engine.execute(
                Task(code="[...'ab'].map((c) => c + n)", language="javascript", inputs={"n": 1})
            )
            assert done.status == "COMPLETE", done
            assert '["a1","b1"]' in done.output.replace(" ", "").replace("\n", "")
            state = await engine.status(done.execution_id)
            assert state.status == "completed"

    asyncio.run(main())


def test_an_order_on_record_has_its_language() -> None:
    order = GuestOrder(code="1", language="typescript")
    assert order.model_dump(mode="json", exclude_defaults=True) == {"code": "1", "language": "typescript"}
