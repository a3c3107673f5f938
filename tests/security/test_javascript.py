"""JavaScript that attacks its own bridge, the host or the limits: each ends as is written above it, and none crashes.

The bridge runs in the realm of the code that it serves: code can break its own run, and nothing else.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from go_ent.sandbox import Limits, Sandbox
from tests.conftest import TOOLS

INPUTS = {"inp": {"__proto__": {"polluted": 1}, "a": 1}}
SLOW = ("cpu_limit", "memory_limit")


def attacks() -> list[tuple[str, str, str]]:
    """Each with the status and the kind of error that it ends with."""
    text = (Path(__file__).parent / "javascript_attacks.js").read_text()
    found = []
    for part in re.split(r"^//// ", text, flags=re.MULTILINE)[1:]:
        head, _, source = part.partition("\n")
        status, _, kind = head.partition(" ")
        found.append((status, kind, source))
    return found


def ends_as_written(chosen: list[tuple[str, str, str]], limits: Limits) -> None:
    with Sandbox(TOOLS, limits) as box:
        for status, kind, source in chosen:
            run = box.run_sync(source, INPUTS, language="javascript")
            assert run.status == status, f"{source[:200]}: {run.error}"
            if status == "error":
                assert run.error is not None
                assert run.error.kind.startswith(kind), source[:200]
        # And nothing of it is left for whoever comes next.
        clean = "[typeof [].push, typeof ({}).polluted, await tools.add(1, 2), Object.keys(globalThis).length]"
        assert box.run_sync(clean, language="javascript").result == ["function", "undefined", 3, 0]


def test_there_are_many() -> None:
    assert len(attacks()) >= 100


def test_attacks_end_as_written() -> None:
    ends_as_written([one for one in attacks() if one[0] not in SLOW], Limits(timeout_s=30, cpu_s=20))


@pytest.mark.more
def test_attacks_on_limits_end_as_written() -> None:
    ends_as_written([one for one in attacks() if one[0] in SLOW], Limits(timeout_s=60, cpu_s=3))


@pytest.fixture(scope="module")
def fuzzed() -> Sandbox:
    return Sandbox(TOOLS, Limits(timeout_s=10, cpu_s=2))


PIECES = st.sampled_from(
    "a b 1 'x' ` ${ } { ( ) [ ] => = ; , . ?. : < > / + - ! async await return const let function class "
    "type enum interface as import export tools.add \\n // /* */ \\0 \\ud800 é 😀 # @ new this null yield".split()
)


@pytest.mark.more
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(source=st.lists(PIECES, max_size=25).map(" ".join) | st.text(max_size=60), typed=st.booleans())
def test_no_source_crashes(fuzzed: Sandbox, source: str, typed: bool) -> None:
    run = fuzzed.run_sync(source, language="typescript" if typed else "javascript")
    assert run.status in ("completed", "error", "cpu_limit", "refused"), (source, run.error)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text() | st.floats(-1e15, 1e15),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=JSON)
def test_a_value_comes_back_as_it_went(fuzzed: Sandbox, value: object) -> None:
    run = fuzzed.run_sync("value", {"value": value}, language="javascript")
    assert run.error is None, str(run.error)
    assert run.result == value


FORGED = [
    "Object.defineProperty(String.prototype, 'x', {value: 1}); await tools['add\\n[[],[]]'](1, 2)",
    "await tools.add(JSON.rawJSON ? 1 : 1, {toJSON: () => '],[1,\"add\",[1,2],{}]'})",
    "await tools['add\"],[2,\"leak']()",
]


@pytest.mark.parametrize("source", FORGED)
def test_a_message_is_not_to_be_forged_by_what_is_in_it(fuzzed: Sandbox, source: str) -> None:
    run = fuzzed.run_sync(source, language="javascript")
    assert run.status == "error"
    assert [call.name for call in run.calls if call.ok] == []
    assert len(run.calls) == 1
