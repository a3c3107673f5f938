"""The benchmark of code mode plays its tasks for real, and a wrong answer fails it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.codemode.scenarios import Scenario, Wrong, one_call, scenarios
from benchmarks.codemode.stage import WAYS, Played, Way, stage
from benchmarks.codemode.talk import CACHED, ENVELOPE, Call, Talk
from benchmarks.codemode.world import NOUNS, VERBS, World, others
from benchmarks.codemode_bench import Found, rows_of
from go_ent.engine.tokens import count
from go_ent.sandbox import Sandbox

SMALL = one_call("one small call", 10)


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as box:
        yield box


def play(box: Sandbox, scenario: Scenario, *ways: Way) -> dict[Way, Played]:
    async def main() -> dict[Way, Played]:
        async with stage(World(), scenario.tools, [scenario], box) as made:
            return {way: await made.play(scenario, way) for way in ways}

    return asyncio.run(main())


def test_the_smallest_task_is_done_in_every_way(box: Sandbox) -> None:
    played = play(box, SMALL, *WAYS)
    assert {way: (len(each.talk.turns), each.calls) for way, each in played.items()} == {
        "direct": (2, 1),
        "direct, parallel": (2, 1),
        "code mode": (2, 1),
        "composed": (2, 1),
    }
    assert played["direct"].talk.tokens < min(played["composed"].talk.tokens, played["code mode"].talk.tokens)
    rows = rows_of(Found(SMALL, played, {way: each.seconds for way, each in played.items()}, 0))
    ratios = {row.key: row.ratio for row in rows if row.ratio is not None}
    assert set(ratios) == {
        f"one small call: {what} ({way})" for what in ("tokens", "turns") for way in ("code mode", "composed")
    }
    assert ratios["one small call: turns (code mode)"] == 1


async def test_what_tasks_cost_in_tokens_is_bounded(box: Sandbox) -> None:
    """Every word in a definition is paid for in each turn: these are the bounds that the definitions are written to."""
    bounds = {"one small call": 2_200, "two tools": 2_600, "one export, counted": 3_200}
    world = World()
    chosen = [scenario for scenario in scenarios(world) if scenario.tools == 10]
    async with stage(world, 10, chosen, box) as made:
        for scenario in chosen:
            if scenario.name in bounds:
                code, composed = [(await made.play(scenario, way)).talk.tokens for way in ("code mode", "composed")]
                assert code <= bounds[scenario.name], scenario.name
                assert composed <= 2_000, scenario.name


async def test_a_way_that_errs_fails_the_benchmark(box: Sandbox) -> None:
    wrong = dataclasses.replace(SMALL, expected=lambda world: "lost")
    cases: list[tuple[Scenario, Way, str]] = [
        *((wrong, way, f"one small call, {way}: the answer is '[a-z]+', and should be 'lost'") for way in WAYS),
        (changed(code='(await tools.desk.get_order(order_id="O-9999"))["state"]'), "code mode", "^code_execute: "),
        (
            changed(searches=("ship a parcel",), needs=("desk.get_parcel",)),
            "code mode",
            "the search did not find desk.get_parcel",
        ),
        (changed(sends=lambda world: [("collections", "hello")]), "direct", "was sent, and not"),
        (changed(arguments={"order": "O-1007"}), "composed", "^order_state: "),
    ]

    async with stage(World(), SMALL.tools, [SMALL], box) as made:
        for scenario, way, message in cases:
            with pytest.raises(Wrong, match=message):
                await made.play(scenario, way)


def changed(**changes: Any) -> Scenario:
    return dataclasses.replace(SMALL, **changes)


def test_every_turn_pays_for_all_that_was_said_before() -> None:
    talk = Talk(prefix=1000)
    talk.add("How many?")
    call = Call("count", {"what": "orders"})
    talk.call([call])
    talk.add("17 orders")
    talk.turn("17")
    asked, called, heard, answered = (count(text) + ENVELOPE for text in ("How many?", call.text, "17 orders", "17"))
    assert [turn.input for turn in talk.turns] == [1000 + asked, 1000 + asked + called + heard]
    assert (talk.output, talk.tokens) == (called + answered, 2000 + 2 * asked + 2 * called + heard + answered)
    new = called + heard
    assert talk.cached() == pytest.approx((1000 + asked) * (1 + CACHED) + new + talk.output)
    assert talk.cached(warm=True) == pytest.approx(1000 * CACHED + asked + (1000 + asked) * CACHED + new + talk.output)


def test_the_tasks_are_of_every_size_and_each_is_named_once() -> None:
    every = scenarios(World())
    assert len({scenario.name for scenario in every}) == len(every) == 10
    assert {scenario.tools for scenario in every} == {10, 100, 1000}
    assert {"1 KB", "100 KB"} <= {scenario.result.rpartition("× ")[2] for scenario in every}


def test_there_are_a_thousand_tools_of_different_names() -> None:
    names = {tool.name for tool in others(990)}
    assert len(names) == 990
    with pytest.raises(ValueError, match="only"):
        others(len(VERBS) * len(NOUNS) + 1)


def test_the_answers_are_as_large_as_is_said() -> None:
    world = World()
    orders, tickets = (
        "".join(each.model_dump_json() + "," for each in found) for found in (world.orders, world.tickets)
    )
    assert all(90_000 < len(text) < 110_000 for text in (orders, tickets, world.report))
    assert all(900 < len(note.text) < 1_100 for note in world.notes.values())
    assert 900 < len("".join(order.model_dump_json() + "," for order in world.of("C-017"))) < 1_100
