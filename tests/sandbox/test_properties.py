"""What holds for every value, not only for those that came to mind."""

from __future__ import annotations

import json
import math

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from go_ent.sandbox import Limits, Sandbox
from go_ent.sandbox.host.tools import scrub
from go_ent.sandbox.worker.names import FILE_NAME
from go_ent.sandbox.worker.wire import Frames, frame

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=200)), max_size=8), st.data())
def test_frames_survive_any_cutting(messages: list[tuple[int, bytes]], data: st.DataObject) -> None:
    stream = b"".join(frame(kind, payload) for kind, payload in messages)
    frames, found, at = Frames(), [], 0
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream) - at))
        frames.feed(stream[at : at + size])
        at += size
        while (message := frames.next()) is not None:
            found.append(message)
    assert found == messages


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(value=JSON)
def test_values_come_back_as_they_went(box: Sandbox, value: object) -> None:
    run = box.run_sync("[x, [x]]", {"x": value})
    assert run.status == "completed", run.error
    assert run.result == [value, [value]]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXT)
def test_text_crosses_to_a_tool_and_back(box: Sandbox, text: str) -> None:
    assert box.run_sync("await tools.echo(value=x)", {"x": text}).result == text


@given(st.text(max_size=300))
def test_no_absolute_path_is_left(text: str) -> None:
    scrubbed = scrub(f"{text} /srv/app/secret.txt {text}")
    assert "secret.txt" not in scrubbed
    json.dumps(scrubbed).encode("utf-8")


@given(st.text(max_size=30))
def test_file_names_never_lead_outside(name: str) -> None:
    if FILE_NAME.fullmatch(name):
        assert not name.startswith("/")
        assert not {"", ".", ".."} & set(name.split("/"))


@given(st.floats(0.001, 1000), st.floats(0.001, 1000))
def test_narrowing_never_widens(mine: float, wanted: float) -> None:
    limits = Limits(timeout_s=mine)
    if wanted <= mine:
        assert math.isclose(limits.narrowed({"timeout_s": wanted}).timeout_s or 0, wanted)
    else:
        try:
            limits.narrowed({"timeout_s": wanted})
        except ValueError:
            return
        raise AssertionError("a run widened its limit")
