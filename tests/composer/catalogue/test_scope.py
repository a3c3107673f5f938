"""What is left of a tree's limits for the next run in it."""

from __future__ import annotations

import asyncio

from go_ent.composer.catalogue.scope import Allowance
from go_ent.sandbox import Limits, Sandbox


async def test_the_first_run_has_all_of_it_and_the_next_what_is_left() -> None:
    limits = Limits(timeout_s=5, cpu_s=2, max_tool_calls=10)
    allowance = Allowance(limits, Sandbox())
    await asyncio.sleep(0.01)
    assert allowance.narrow(Limits()) == limits
    assert allowance.narrow(Limits(cpu_s=1)).cpu_s == 1
    assert allowance.narrow(Limits(cpu_s=60)).cpu_s == 2
    allowance.enter("a")
    allowance.leave("a", 0.5)
    left = allowance.narrow(Limits())
    assert left.timeout_s is not None
    assert 0 < left.timeout_s < 5
    assert (left.cpu_s, left.max_tool_calls) == (1.5, 10)


def test_a_call_that_was_made_before_any_run_is_taken_off() -> None:
    allowance = Allowance(Limits(max_tool_calls=10), Sandbox())
    allowance.take_call()
    assert allowance.narrow(Limits()).max_tool_calls == 9
