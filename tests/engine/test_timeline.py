"""A timeline is made record by record, in the order of a tree, and passes over what nobody of us wrote."""

from __future__ import annotations

from typing import Any

from go_ent.engine.timeline import MAX_ARGUMENTS, Timeline, arguments_line


def record(seq: int, kind: str, **data: Any) -> dict[str, Any]:
    return {"seq": seq, "at": 100.0 + seq, "kind": kind, **data}


CALLS = [
    record(1, "created"),
    record(2, "guest", path="run"),
    record(3, "call", path="run/1", tool="a", arguments=[[], {"x": 1}]),
    record(4, "call", path="run/2", tool="b", arguments=[[1], {}]),
    record(5, "call", path="run/1/1", tool="c", arguments=None),
    record(6, "answer", path="run/2", answer=[2, 0, {"kind": "CallError", "message": "no"}]),
    record(7, "answer", path="run/1/1", answer=[1, 1, "ok"]),
    record(8, "answer", path="run/1", answer=[1, 1, [1, 2]]),
    record(9, "step_finished", step="run", result={"status": "completed", "duration_ms": 7000, "output": "x"}),
]


def test_calls_stand_below_what_made_them() -> None:
    timeline = Timeline()
    timeline.add(CALLS, 0)
    found = [(span.path, span.depth, span.status, span.ms) for span in timeline.ordered()]
    assert found == [
        ("run", 0, "completed", 7000.0),
        ("run/1", 1, "completed", 5000.0),
        ("run/1/1", 2, "completed", 2000.0),
        ("run/2", 1, "failed", 2000.0),
    ]
    assert timeline.spans["run/2"].error == "CallError: no"
    assert (timeline.spans["run/1"].arguments, timeline.spans["run/1"].answer_bytes) == ("x=1", 5)


def test_one_record_at_a_time_makes_the_same() -> None:
    whole, parts = Timeline(), Timeline()
    whole.add(CALLS, 0)
    for one in CALLS:
        parts.add([one], 0)
        parts.ordered()
    assert parts.ordered() == whole.ordered()


def test_a_call_is_asked_about_and_decided() -> None:
    timeline = Timeline()
    timeline.add([*CALLS[:3], record(4, "asked", path="run/1", reason="it deletes")], 0)
    assert (timeline.spans["run/1"].status, timeline.spans["run/1"].reason) == ("waits for approval", "it deletes")
    timeline.add([record(5, "decided", path="run/1", approved=False, comment="not now")], 0)
    assert (timeline.spans["run/1"].status, timeline.spans["run/1"].comment) == ("rejected", "not now")
    timeline.settle(running=False)
    assert timeline.spans["run"].status == "interrupted"


def test_waiting_is_not_part_of_the_time_that_a_call_took() -> None:
    timeline = Timeline()
    asked, decided = record(4, "asked", path="run/1", reason="r"), record(900, "decided", path="run/1", approved=True)
    timeline.add([*CALLS[:3], asked, decided, record(902, "answer", path="run/1", answer=[1, 1, "ok"])], 0)
    assert (timeline.spans["run/1"].ms, timeline.spans["run/1"].at) == (2000.0, 103.0)


def test_calls_beyond_the_most_are_counted_where_they_were_made() -> None:
    timeline = Timeline(most_calls=2)
    timeline.add(CALLS, 0)
    assert [span.path for span in timeline.ordered()] == ["run", "run/1", "run/2"]
    assert (timeline.spans["run/1"].more, timeline.spans["run"].more, timeline.left_out) == (1, 0, 1)
    timeline.add([record(10, "undone", after=3), record(11, "call", path="run/2", tool="b", arguments=None)], 0)
    assert [span.path for span in timeline.ordered()] == ["run", "run/1", "run/2"]


def test_lines_say_what_they_came_to() -> None:
    timeline = Timeline()
    timeline.add(
        [
            record(1, "guest", path="3"),
            record(2, "line", n=3, status="error", run={"error": {"message": "bad"}, "usage": {"wall_ms": 5.0}}),
            record(3, "guest", path="4"),
            record(4, "line", n=4, status="completed", run={"result": {"a": 1}, "usage": {"wall_ms": 7.0}}),
        ]
    )
    lines = [(span.path, span.status, span.ms, span.error, span.output) for span in timeline.ordered()]
    assert lines == [("3", "error", 5.0, "bad", ""), ("4", "completed", 7.0, "", '{"a":1}')]


def test_what_was_undone_is_not_there_any_more() -> None:
    timeline = Timeline()
    timeline.add([*CALLS[:6], record(7, "undone", after=3)], 0)
    assert [span.path for span in timeline.ordered()] == ["run", "run/1"]
    assert [span.path for span in timeline.undone] == ["run/2", "run/1/1"]


def test_files_of_before_count_again_when_what_came_after_is_undone() -> None:
    first, then = (record(seq, "files", step="", files=[{"name": "a"}]) for seq in (2, 5))
    timeline = Timeline()
    timeline.add([first, then])
    assert timeline.files == [first, then]
    timeline.add([record(6, "undone", after=3, until=5)])
    assert timeline.files == [first]


def test_records_that_nobody_of_us_wrote_are_passed_over() -> None:
    timeline = Timeline()
    bad: list[dict[str, Any]] = [
        {"seq": "x", "kind": "call"},
        record(2, "call", path=None),
        record(3, "call", path="x" * 5000),
        record(4, "answer", path="nowhere", answer=3),
        record(5, "step_finished", step="run", result=[1]),
        record(6, "undone", after="x"),
        record(7, "calls", path="run", calls=[3]),
        record(8, "try", step=["a"]),
        {"seq": 9, "at": "later", "kind": "guest", "path": "run"},
    ]
    timeline.add(bad, 0)
    assert timeline.ordered() == []


def test_arguments_are_bounded() -> None:
    assert arguments_line([["x" * 10_000], {"y": list(range(10_000))}]).endswith("…")
    assert len(arguments_line([[], {"k" * 1000: "v" * 1000}])) <= MAX_ARGUMENTS
    assert arguments_line({"a": 1}) == ""
