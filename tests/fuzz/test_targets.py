"""Each fuzz target holds on its seeds and on changes of them; what atheris looks for is more of the same."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.target import Target, targets
from tests.support.rows import each

NAMES = sorted(targets())


@each("name", NAMES)
def test_takes_one_of_its_seeds_and_crashes_on_none(name: str) -> None:
    target = targets()[name]
    taken = [target(seed) for seed in target.seeds]
    assert any(taken), f"{name} refuses all of its seeds: what it takes is never tried"


@st.composite
def changed(draw: st.DrawFn, target: Target) -> bytes:
    """A seed with a few places cut, repeated, swapped with those of another, or written over."""
    data = draw(st.sampled_from(target.seeds))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 64)))
        other = draw(st.sampled_from(target.seeds))
        put = draw(
            st.one_of(
                st.just(b""),
                st.binary(max_size=8),
                st.just(data[start:end] * 2),
                st.just(other[start:end]),
                st.sampled_from(NASTY),
            )
        )
        data = data[:start] + put + data[end:]
    return data


NASTY = (
    b"\x00",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"1e999",
    b"-0",
    b"9" * 5000,
    b"[" * 500,
    b'"',
    b"\\ud800",
    b"null",
    b"{}",
    b"\n",
    b"..",
    b"${",
    b"\xe2\x80\xae",
)


@pytest.mark.more
@pytest.mark.parametrize("name", NAMES)
def test_crashes_on_no_change_of_a_seed(name: str) -> None:
    target = targets()[name]

    @settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(changed(target))
    def check(data: bytes) -> None:
        target(data)

    check()
