"""A graph of tasks: order, hazards, failures, and what comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from go_ent.engine.core.models import RunResult
from go_ent.engine.core.step import Step
from go_ent.engine.strategies import Plan, PlanTask, parallel, parse_plan
from go_ent.engine.strategies.graph import Graph, GraphNode, build, topological
from go_ent.engine.strategies.hazards import path_parts
from tests.support.rows import each


def plan(*tasks: dict[str, Any]) -> Plan:
    return parse_plan({"task": [{"prompt": "x", **task} for task in tasks]})


def done(step: Step, output: str = "", **more: Any) -> RunResult:
    return RunResult(
        **{"execution_id": "e", "task_id": step.id, "status": "completed", "output": output or f"of {step.id}"} | more
    )


class Host:
    """Runs steps and remembers when each began and ended. Each takes *pause* turns of the loop."""

    def __init__(self, failing: Sequence[str] = (), pause: Callable[[str], int] = lambda _id: 2, **answer: Any) -> None:
        self.steps: list[Step] = []
        self.events: list[tuple[str, str]] = []
        self.most = 0
        self._running = 0
        self._failing, self._pause, self._answer = set(failing), pause, answer

    async def __call__(self, step: Step) -> RunResult:
        self.steps.append(step)
        self.events.append(("began", step.id))
        self._running += 1
        self.most = max(self.most, self._running)
        for _ in range(self._pause(step.id)):
            await asyncio.sleep(0)
        self._running -= 1
        self.events.append(("ended", step.id))
        if step.id in self._failing:
            return done(step, status="failed", failure="task", error="no")
        return done(step, **self._answer)

    @property
    def began(self) -> list[str]:
        return [step.id for step in self.steps]

    def overlapped(self, one: str, other: str) -> bool:
        at = self.events.index
        return at(("began", one)) < at(("ended", other)) and at(("began", other)) < at(("ended", one))


def run(given: Plan, host: Callable[[Step], Any], concurrency: int = 4, **options: Any) -> dict[str, RunResult]:
    results = asyncio.run(parallel.run(given, host, execution_id="e", concurrency=concurrency, backoff_s=0, **options))
    assert [result.task_id for result in results] == [task.id for task in given.task]
    return {result.task_id: result for result in results}


def statuses(results: dict[str, RunResult]) -> dict[str, str]:
    return {id_: result.status for id_, result in results.items()}


class TestRunning:
    def test_a_task_starts_after_what_it_depends_on_whatever_the_order_in_the_plan(self) -> None:
        host = Host()
        run(plan({"id": "c", "depends_on": ["b"]}, {"id": "b", "depends_on": ["a"]}, {"id": "a"}), host)
        assert host.began == ["a", "b", "c"]

    def test_concurrency_bounds_what_runs_at_once_and_the_plan_may_say_it(self) -> None:
        tasks = [{"id": f"t{number}", "prompt": "x"} for number in range(9)]
        host = Host()
        asyncio.run(parallel.run(parse_plan({"concurrency": 3, "task": tasks}), host, execution_id="e"))
        assert host.most == 3
        with pytest.raises(ValueError, match="concurrency must be"):
            run(parse_plan({"task": tasks}), host, concurrency=0)

    def test_the_longest_remaining_chain_goes_first_and_weights_count(self) -> None:
        host = Host()
        chain: list[dict[str, Any]] = [
            {"id": "long1"},
            {"id": "long2", "depends_on": ["long1"]},
            {"id": "long3", "depends_on": ["long2"]},
        ]
        run(plan({"id": "a"}, {"id": "b"}, *chain), host, 1)
        assert host.began == ["long1", "long2", "a", "b", "long3"]
        host = Host()
        run(
            plan({"id": "a"}, {"id": "odd", "metadata": {"weight": "x"}}, {"id": "heavy", "metadata": {"weight": 2.5}}),
            host,
            1,
        )
        assert host.began == ["heavy", "a", "odd"]

    def test_outputs_of_dependencies_reach_the_step_and_references_are_put_in(self) -> None:
        host = Host()
        run(
            plan(
                {"id": "a"},
                {"id": "b"},
                {"id": "c", "depends_on": ["b", "a"]},
                {"id": "d", "depends_on": ["a", "b"], "prompt": "Use ${a.output}"},
                {"id": "e", "prompt": "$${a.output}"},
            ),
            host,
        )
        step = {step.id: step for step in host.steps}
        assert [(output.source, output.text) for output in step["c"].dependencies] == [("b", "of b"), ("a", "of a")]
        assert step["d"].task.description == "Use of a"
        assert [output.source for output in step["d"].dependencies] == ["b"]
        assert step["e"].task.description == "${a.output}"

    def test_large_outputs_are_put_in_too(self) -> None:
        host = Host(output="[" + "1," * 200_000 + "1]")
        run(plan({"id": "a"}, {"id": "b", "prompt": "", "tool": "sum", "inputs": {"rows": "${a.output}"}}), host)
        assert len(host.steps[1].task.inputs["rows"]) == 200_001


class TestFailures:
    def test_descendants_are_skipped_and_name_the_cause_while_the_rest_goes_on(self) -> None:
        host = Host(failing=["load"])
        results = run(
            plan(
                {"id": "load"},
                {"id": "clean", "depends_on": ["load"]},
                {"id": "report", "prompt": "${clean.output}"},
                {"id": "other"},
                {"id": "last", "depends_on": ["other", "report"]},
            ),
            host,
        )
        assert statuses(results) == {
            "load": "failed",
            "clean": "skipped",
            "report": "skipped",
            "other": "completed",
            "last": "skipped",
        }
        assert {results[id_].error for id_ in ("clean", "report", "last")} == {"not run: load failed"}
        assert sorted(host.began) == ["load", "other"]

    def test_of_several_causes_the_first_in_the_plan_is_named(self) -> None:
        tasks = plan({"id": "z", "depends_on": ["b", "a"]}, {"id": "b"}, {"id": "a"})
        for pause in (lambda id_: 1 if id_ == "a" else 9, lambda id_: 9 if id_ == "a" else 1):
            assert run(tasks, Host(failing=["a", "b"], pause=pause))["z"].error == "not run: b failed"

    @pytest.mark.parametrize(
        ("status", "said"),
        [("timeout", "not run: a took too long"), ("paused", "not run: a is paused"), ("failed", "not run: a failed")],
    )
    def test_what_did_not_complete_has_nothing_to_hand_on(self, status: str, said: str) -> None:
        results = run(plan({"id": "a"}, {"id": "b", "depends_on": ["a"]}), Host(status=status))
        assert (results["b"].status, results["b"].error) == ("skipped", said)

    def test_a_step_that_raises_is_a_failed_step(self) -> None:
        async def raises(step: Step) -> RunResult:
            if step.id == "a":
                raise LookupError("gone")
            if step.id == "b":
                raise asyncio.CancelledError
            return done(step)

        results = run(plan({"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d", "depends_on": ["a"]}), raises)
        assert statuses(results) == {"a": "failed", "b": "failed", "c": "completed", "d": "skipped"}
        assert (results["a"].error, results["a"].failure) == ("LookupError: gone", "crash")

    def test_a_reference_that_leads_nowhere_fails_its_task_alone(self) -> None:
        host = Host()
        results = run(
            plan(
                {"id": "a"}, {"id": "b", "prompt": "${a.output.rows}", "retries": 3}, {"id": "c", "depends_on": ["a"]}
            ),
            host,
        )
        assert statuses(results) == {"a": "completed", "b": "failed", "c": "completed"}
        assert results["b"].error == "${a.output.rows}: the output of a is not JSON, so it has no fields"
        assert (results["b"].failure, results["b"].replan) == ("task", True)
        assert host.began == ["a", "c"]

    def test_a_task_is_tried_again_as_often_as_it_says(self) -> None:
        tries: list[str] = []

        async def third_time_lucky(step: Step) -> RunResult:
            tries.append(step.id)
            if len(tries) < 3:
                return done(step, status="failed", failure="task", error=f"no {len(tries)}")
            return done(step)

        results = run(plan({"id": "a", "retries": 5}, {"id": "b", "depends_on": ["a"]}), third_time_lucky)
        assert tries == ["a", "a", "a", "b"]
        assert results["a"].status == "completed"

    @pytest.mark.parametrize(
        "failed",
        [
            {"failure": "budget"},
            {"failure": "auth"},
            {"failure": "not_found"},
            {"failure": "permission"},
            {"replan": True},
        ],
    )
    def test_what_another_try_cannot_change_is_not_tried_again(self, failed: dict[str, Any]) -> None:
        host = Host(status="failed", **failed)
        run(plan({"id": "a", "retries": 5}), host)
        assert host.began == ["a"]


class TestStopping:
    def test_nothing_more_starts_and_what_never_did_is_interrupted(self) -> None:
        async def main() -> None:
            stop = asyncio.Event()

            async def stops(step: Step) -> RunResult:
                if step.id == "bad":
                    return done(step, status="failed", failure="task", error="no")
                stop.set()
                await asyncio.sleep(0)
                return done(step, status="interrupted", failure="interrupted", output="half")

            given = plan(
                {"id": "bad"},
                {"id": "waits", "depends_on": ["bad", "a"]},
                {"id": "a"},
                {"id": "b"},
                {"id": "c", "depends_on": ["a"]},
                {"id": "d", "depends_on": ["b"]},
                {"id": "never", "depends_on": ["b", "bad"]},
            )
            results = {
                r.task_id: r for r in await parallel.run(given, stops, execution_id="e", concurrency=1, stop=stop)
            }
            assert statuses(results) == {
                "bad": "failed",
                "waits": "skipped",
                "a": "interrupted",
                "b": "interrupted",
                "c": "interrupted",
                "d": "interrupted",
                "never": "skipped",
            }
            assert results["a"].output == "half"
            assert results["waits"].error == results["never"].error == "not run: bad failed"
            assert results["b"].error == results["d"].error == "not run: the execution was stopped"
            assert results["c"].error == "not run: a was interrupted"
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(main())

    async def test_what_was_about_to_start_does_not(self) -> None:
        stop = asyncio.Event()

        async def stops(step: Step) -> RunResult:
            stop.set()
            return done(step)

        results = await parallel.run(plan({"id": "a"}, {"id": "b"}), stops, execution_id="e", concurrency=2, stop=stop)
        assert [result.status for result in results] == ["completed", "interrupted"]

    async def test_stopped_before_it_began_nothing_runs(self) -> None:
        stop, host = asyncio.Event(), Host()
        stop.set()
        results = await parallel.run(plan({"id": "a"}, {"id": "b"}), host, execution_id="e", stop=stop)
        assert [result.status for result in results] == ["interrupted", "interrupted"]
        assert host.began == []

    async def test_no_pause_before_another_try_outlives_the_stop(self) -> None:
        stop = asyncio.Event()

        async def fails(step: Step) -> RunResult:
            asyncio.get_running_loop().call_soon(stop.set)
            return done(step, status="failed", failure="task", error="no")

        given = plan({"id": "a", "retries": 9})
        (result,) = await parallel.run(given, fails, execution_id="e", stop=stop, backoff_s=60)
        assert result.status == "failed"

    def test_cancelling_it_leaves_nothing_running(self) -> None:
        async def main() -> None:
            began = asyncio.Event()

            async def for_ever(step: Step) -> RunResult:
                began.set()
                await asyncio.Event().wait()
                return done(step)

            given = plan({"id": "a"}, {"id": "b"}, {"id": "c", "depends_on": ["a"]})
            for concurrency in (1, 2, 8):
                began.clear()
                running = asyncio.create_task(parallel.run(given, for_ever, execution_id="e", concurrency=concurrency))
                await began.wait()
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running
                assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(main())


class TestHazards:
    @each(
        ("one", "other", "apart"),
        [
            ({"writes": ["a.py"]}, {"reads": ["a.py"]}, True),
            ({"reads": ["a.py"]}, {"writes": ["a.py"]}, True),
            ({"writes": ["a.py"]}, {"writes": ["a.py"]}, True),
            ({"reads": ["a.py"]}, {"reads": ["a.py"]}, False),
            ({"writes": ["src/"]}, {"reads": ["src/x/a.py"]}, True),
            ({"writes": ["src/x/a.py"]}, {"reads": ["src"]}, True),
            ({"reads": ["src/"]}, {"writes": ["./src//x.py"]}, True),
            ({"reads": ["src/x.py"]}, {"writes": ["src/"]}, True),
            ({"writes": ["src/x.py"]}, {"writes": ["src/"]}, True),
            ({"writes": ["src/"]}, {"writes": ["src/x.py"]}, True),
            ({"writes": ["src/*.py"]}, {"reads": ["src/x.py"]}, True),
            ({"writes": ["."]}, {"reads": ["anything"]}, True),
            ({"writes": ["src/../docs"]}, {"reads": ["docs/a.md"]}, True),
            ({"writes": ["src/a"]}, {"reads": ["src/a.py"]}, False),
            ({"writes": ["/src/a"]}, {"writes": ["src/a"]}, False),
            ({"writes": ["a"]}, {"writes": ["b"]}, False),
            ({"mutex": ["db"]}, {"mutex": ["gpu", "db"]}, True),
            ({"mutex": ["db"]}, {"mutex": ["gpu"]}, False),
            ({"reads": ["a"], "writes": ["a"]}, {"mutex": ["a"]}, False),
        ],
    )
    def test_two_tasks_that_touch_the_same_are_kept_apart_in_plan_order(
        self, one: dict[str, Any], other: dict[str, Any], apart: bool
    ) -> None:
        host = Host()
        run(plan({"id": "one", **one}, {"id": "other", **other}), host)
        assert host.overlapped("one", "other") is not apart
        assert host.began == ["one", "other"]

    def test_reading_what_was_not_written_is_skipped_while_mere_order_goes_on(self) -> None:
        host = Host(failing=["write"])
        results = run(
            plan(
                {"id": "write", "writes": ["out/a"], "mutex": ["db"]},
                {"id": "read", "reads": ["out/"]},
                {"id": "again", "writes": ["out/a"]},
                {"id": "holds", "mutex": ["db"]},
                {"id": "after", "reads": ["out/a"]},
            ),
            host,
        )
        assert statuses(results) == {
            "write": "failed",
            "read": "skipped",
            "again": "completed",
            "holds": "completed",
            "after": "completed",
        }
        assert results["read"].error == "not run: write failed"

    def test_what_was_written_over_since_is_not_missed(self) -> None:
        host = Host(failing=["write"])
        tasks = plan(
            {"id": "write", "writes": ["out/x/a"]},
            {"id": "all", "writes": ["out/x"]},
            {"id": "read", "reads": ["out/"]},
        )
        assert statuses(run(tasks, host)) == {"write": "failed", "all": "completed", "read": "completed"}

    def test_readers_that_fail_keep_nobody_from_writing(self) -> None:
        host = Host(failing=["one", "two"])
        tasks = plan(
            {"id": "one", "reads": ["out/"]}, {"id": "two", "reads": ["out/"]}, {"id": "write", "writes": ["out/a"]}
        )
        assert statuses(run(tasks, host)) == {"one": "failed", "two": "failed", "write": "completed"}
        assert host.events[-2:] == [("began", "write"), ("ended", "write")]

    def test_hazards_follow_what_the_plan_asks_for_and_close_no_circle(self) -> None:
        host = Host()
        run(
            plan(
                {"id": "reader", "depends_on": ["writer"], "reads": ["a"], "mutex": ["m"]},
                {"id": "middle", "writes": ["a"], "mutex": ["m"]},
                {"id": "writer", "writes": ["a"], "mutex": ["m"]},
            ),
            host,
        )
        assert host.began == ["middle", "writer", "reader"]

    def test_many_readers_and_writers_of_a_folder_make_few_edges(self) -> None:
        half = 2000
        writers = [GraphNode(writes=(f"src/{number}",)) for number in range(half)]
        readers = [GraphNode(reads=("src/",)) for _ in range(half)]
        for nodes in (
            writers + readers,
            readers + writers,
            [node for pair in zip(writers, readers, strict=True) for node in pair],
        ):
            graph = build([str(number) for number in range(2 * half)], nodes)
            assert sum(graph.waits) <= 4 * len(nodes)

    @pytest.mark.parametrize(
        ("path", "parts"),
        [
            ("a//b/./c/", (".", "a", "b", "c")),
            ("/a", ("/", "a")),
            (".", (".",)),
            ("../a", (".", "..", "a")),
            ("a/**/b", (".", "a")),
        ],
    )
    def test_paths_are_compared_by_their_parts(self, path: str, parts: tuple[str, ...]) -> None:
        assert path_parts(path) == parts


PATHS = st.lists(st.sampled_from(["a", "a/x", "a/x/1", "a/y", "b", "b/z", "."]), max_size=2)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Any graph: the tasks stand in the plan in any order, with any hazards."""
    size = draw(st.integers(1, 12))
    place = draw(st.permutations(range(size)))
    tasks = []
    for number in range(size):
        before = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        held = draw(st.lists(st.sampled_from(["m", "n"]), max_size=1))
        tasks.append(
            {
                "id": f"t{number}",
                "depends_on": [f"t{one}" for one in sorted(before)],
                "reads": draw(PATHS),
                "writes": draw(PATHS),
                "mutex": held,
            }
        )
    return plan(*(tasks[number] for number in place))


def overlap(one: str, other: str) -> bool:
    parts, others = path_parts(one), path_parts(other)
    shorter = min(len(parts), len(others))
    return parts[:shorter] == others[:shorter]


def touch(one: PlanTask, other: PlanTask) -> bool:
    """Whether two tasks must not run at once."""
    pairs = [(a, b) for a in one.writes for b in (*other.writes, *other.reads)] + [
        (a, b) for a in one.reads for b in other.writes
    ]
    return bool(set(one.mutex) & set(other.mutex)) or any(overlap(a, b) for a, b in pairs)


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    given_plan=plans(),
    concurrency=st.integers(1, 5),
    failing=st.sets(st.integers(0, 11), max_size=3),
    pauses=st.lists(st.integers(0, 5), min_size=12),
)
def test_any_graph_runs_each_task_once_in_order_and_within_bounds(
    given_plan: Plan, concurrency: int, failing: set[int], pauses: list[int]
) -> None:
    host = Host(failing=[f"t{number}" for number in failing], pause=lambda id_: pauses[int(id_[1:])])
    results = run(given_plan, host, concurrency)
    tasks = {task.id: task for task in given_plan.task}
    assert len(host.began) == len(set(host.began))
    assert set(host.began) == {id_ for id_, result in results.items() if result.status in {"completed", "failed"}}
    assert {id_ for id_, result in results.items() if result.status == "failed"} <= {f"t{number}" for number in failing}
    assert host.most <= concurrency
    at = {event: index for index, event in enumerate(host.events)}
    for id_, result in results.items():
        needed = [results[one] for one in tasks[id_].depends_on]
        if result.status == "skipped":
            cause = (result.error or "").split()[2]
            assert results[cause].status == "failed"
        else:
            assert all(one.ok for one in needed)
            assert all(at["ended", one.task_id] < at["began", id_] for one in needed)
    check_who_was_skipped(given_plan, results)
    for one in host.began:
        for other in host.began:
            if one < other and touch(tasks[one], tasks[other]):
                assert not host.overlapped(one, other)


def check_who_was_skipped(given_plan: Plan, results: dict[str, RunResult]) -> None:
    """Whoever reads what a task that did not complete was the last to write; and nobody who needs nothing of such a
    task.
    """
    order = [given_plan.task[index] for index in topological(list(given_plan.index), given_plan.needs)]
    for place, task in enumerate(order):
        earlier = order[:place]
        failed = [one for one in earlier if not results[one.id].ok]
        written = [one for one in failed if any(overlap(path, read) for path in one.writes for read in task.reads)]
        if any(last_written(one, earlier, read) for one in written for read in task.reads):
            assert results[task.id].status == "skipped"
        if results[task.id].status == "skipped":
            assert written or any(one.id in task.depends_on for one in failed)


def last_written(task: PlanTask, earlier: list[PlanTask], read: str) -> bool:
    """Whether a part of what is read was written by the task, and by nobody since."""
    since = [path for one in earlier[earlier.index(task) + 1 :] for path in one.writes]
    for path in task.writes:
        common = max(path_parts(path), path_parts(read), key=len)
        if overlap(path, read) and not any(common[: len(path_parts(later))] == path_parts(later) for later in since):
            return True
    return False


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(given_plan=plans())
def test_in_any_graph_hazards_order_all_that_touch_the_same(given_plan: Plan) -> None:
    graph = build(list(given_plan.index), given_plan.nodes)
    reached = reachable(graph)
    position = {node: index for index, node in enumerate(topological(list(given_plan.index), given_plan.needs))}
    for one, task in enumerate(given_plan.task):
        for other, second in enumerate(given_plan.task):
            if one != other and position[one] < position[other] and touch(task, second):
                assert other in reached[one]


def reachable(graph: Graph) -> list[set[int]]:
    reached: list[set[int]] = [set() for _ in graph.needs]
    for node in reversed(graph.order):
        for follower in graph.followers[node]:
            reached[node] |= {follower} | reached[follower]
    return reached


def test_no_more_tasks_of_the_loop_exist_than_may_run() -> None:
    async def main() -> None:
        most = 0

        async def no_op(step: Step) -> RunResult:
            nonlocal most
            most = max(most, len(asyncio.all_tasks()))
            return done(step)

        chain = [{"id": f"c{number}", "depends_on": [f"c{number - 1}"] if number else []} for number in range(500)]
        wide = [{"id": f"w{number}", "writes": [f"out/{number}"]} for number in range(500)]
        results = await parallel.run(
            plan(*chain, *wide, {"id": "end", "reads": ["out/"]}), no_op, execution_id="e", concurrency=8
        )
        assert all(result.ok for result in results)
        assert most <= 8 + 2  # the graph itself and its watch

    asyncio.run(main())
