"""JavaScript and TypeScript on record: replayed, resumed after kill -9, approved, and saved as tools."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer import Composer
from go_ent.engine import Engine
from go_ent.engine.executions.past_runs import past_run
from go_ent.engine.guest_runs.runs import GuestOrder
from go_ent.sandbox import Sandbox
from tests.engine.guest_runs.test_guests import World, approve, begin, cut_to, go_on, journal, kinds, live

CODE = """const first: number = await tools.w.look({ n: 3 });
const order: string[] = await Promise.all([tools.w.put({ text: "slow", delay: 0.02 }), tools.w.put({ text: "quick" })]);
try { await tools.w.break_(); } catch (error) { order.push((error as Error).message); }
checkpoint("nearly", order);
const last = await tools.w.put({ text: `${Math.random()} ${crypto.randomUUID()} ${Date.now() > 0}` });
[first, order, last]"""
TOOL = """// /// tool
// name = "careful"
// ///
/** Ask before it is done. */
export async function careful(name: string): Promise<string> {
  const looked: string = await tools.w.put({ text: name });
  return `${looked} ${await tools.w.danger({ name })}`;
}
"""


def test_from_every_point_of_its_record_it_goes_on_to_the_same_end(project: Path, box: Sandbox) -> None:
    """As after kill -9: no answered call is made again, and what the code sees is what it saw."""
    whole = begin(project, box, World(), code=CODE, language="typescript")
    assert whole.status == "completed", whole.error
    lines = journal(project, whole.id)
    records = [json.loads(line) for line in lines]
    folder = project / ".go-ent" / "executions" / whole.id
    kept = folder.with_name("kept")
    shutil.copytree(folder, kept)
    for number in range(2, len(lines)):
        if kinds(lines)[number - 1] in ("step_finished", "status"):
            continue
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        cut_to(project, whole.id, lines[:number])
        answered = {one["path"] for one in records[:number] if one["kind"] == "answer"}
        world = World()
        run = go_on(project, box, world, whole.id, "retry")
        assert run.status == "completed", (number, run.error)
        calls = [one for one in records if one["kind"] == "call" and one["path"] in answered]
        assert len(world.done) == 4 - sum(one["tool"] in ("w.put", "w.look") for one in calls), number
        assert run.result[:2] == whole.result[:2]  # type: ignore[index]


@pytest.mark.parametrize("as_tool", [False, True])
def test_a_call_waits_for_approval_and_goes_on(project: Path, box: Sandbox, as_tool: bool) -> None:
    world = World()

    async def first(engine: Engine, composer: Composer) -> Any:
        await composer.compose(TOOL)
        code = "await tools.careful({ name: 'x' })"
        order = GuestOrder(tool="careful", inputs={"name": "x"})
        return await engine.guests.run(order if as_tool else GuestOrder(code=code, language="javascript"))

    waits = live(project, box, world, first)
    assert (waits.status, world.done) == ("paused", ["x"])
    approve(project, box, waits.id)
    run = go_on(project, box, world, waits.id)
    assert (run.status, run.result, world.done) == ("completed", "X boom x", ["x", "danger x"])


def test_a_tool_under_way_goes_on_with_the_version_that_it_began_with(project: Path, box: Sandbox) -> None:
    world = World()

    async def first(engine: Engine, composer: Composer) -> Any:
        await composer.compose(TOOL)
        waits = await engine.guests.run(GuestOrder(tool="careful", inputs={"name": "x"}))
        await composer.compose(TOOL.replace("`${looked} ", "`other ${looked} "))
        return waits

    waits = live(project, box, world, first)
    approve(project, box, waits.id)
    assert go_on(project, box, world, waits.id).result == "X boom x"


@pytest.mark.parametrize("language", ["javascript", "typescript"])
def test_code_that_ran_becomes_a_tool_in_its_language(project: Path, box: Sandbox, language: Any) -> None:
    async def work(engine: Engine, composer: Composer) -> Any:
        code = "const most = 2;\nconst made = await tools.w.look({ n: start });\nmade + most"
        run = await engine.guests.run(GuestOrder(code=code, inputs={"start": 3}, language=language))
        await composer.catalogue.load()
        source = await composer.tool_of(past_run(engine.store, run.id), "plus", "Add.", constants={"most": ...})
        saved = await composer.compose(source)
        results = [(await composer.run("plus", {"start": 4} | more)).result for more in ({"most": 1}, {})]
        return saved, results

    saved, results = live(project, box, World(), work)
    assert (saved.language, saved.examples, saved.interface.requires) == (language, 1, ("w.look",))
    assert sorted(saved.interface.input_schema["properties"]) == ["most", "start"]
    assert saved.interface.input_schema["properties"]["most"]["default"] == 2
    assert results == [17, 18]
