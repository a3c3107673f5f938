"""A recorded run can be replayed exactly, and gone on with from any point of its record."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from go_ent.sandbox import ApprovalRequired, Run, Sandbox, ToolError
from go_ent.sandbox.errors import Diverged
from go_ent.sandbox.host import broker
from go_ent.sandbox.host.tools import Toolset
from go_ent.sandbox.worker import wire
from go_ent.sandbox.worker.seam import MAX_GRAIN_NS, TapedSeam
from go_ent.sandbox.worker.tape import Start, Taped

Record = tuple[Any, ...]
EVERYTHING = """
import asyncio, os, random, time, uuid

class Thing:
    pass

async def slow(name, delay):
    await asyncio.sleep(delay)
    return await tools.echo(name, 0.001)

times = [time.time(), time.monotonic()]
chance = [random.random(), str(uuid.uuid4()), os.urandom(8).hex()]
things = [Thing() for _ in range(40)]
order = [things.index(thing) for thing in set(things)]
first = await asyncio.gather(tools.echo("a", 0.004), tools.echo("b", 0.002), tools.add(1, 2), slow("c", 0.001))
checkpoint("gathered", {"first": first, "at": time.time()})
print(first)
finished = []
for next_one in asyncio.as_completed([tools.echo("x", 0.004), tools.echo("y", 0.001), tools.echo("z", 0.002)]):
    finished.append(await next_one)
try:
    await asyncio.wait_for(asyncio.gather(tools.echo("early"), tools.echo("late", 60)), 0.003)
except TimeoutError:
    finished.append("too late")
try:
    await tools.fail("no")
except ToolError as error:
    finished.append(str(error))
until = time.monotonic() + 0.002
while time.monotonic() < until:
    pass
times.append(time.time())
time.sleep(0.002)
last = await tools.add(a=len(order), b=2)
times.append(await tools.echo(str(time.time())))
names = list({uuid.uuid4().hex[:4]: n for n in range(5)})
dict(times=times, chance=chance, order=order, first=first, finished=finished, last=last, names=names)
"""


class Memory:
    """A tape in memory: a list of records. Given the beginning of another's list, it has that run replayed."""

    def __init__(self, records: Sequence[Record] = (), full_after: int | None = None) -> None:
        self.records = list(records)
        self.full_after = full_after
        self.start: Start | None = None
        self.said = [record for record in records if record[0] in ("call", "cancel")]
        self.answers = {record[1]: record[2] for record in records if record[0] == "answer"}
        self.heard = b",".join(record[-1] for record in self.said if record[-1])
        for record in records:
            if record[0] == "guest":
                self.start = record[1]

    def _add(self, *record: Any) -> None:
        if self.full_after is not None and len(self.records) >= self.full_after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.records.append(record)

    def begin(self, start: Start) -> None:
        if self.start is None:
            self._add("guest", start)
        elif self.start != start:
            raise Diverged(f"it was {self.start.source}, and is {start.source}")

    def calls(
        self, calls: list[tuple[int, str, list[Any], dict[str, Any]]], cancelled: list[int], heard: bytes
    ) -> list[bytes | None]:
        answers: list[bytes | None] = []
        for call_id, name, args, kwargs in calls:
            now = ("call", call_id, name, json.dumps([args, kwargs]))
            if self._again(now):
                answer = self.answers.get(call_id)
                answers.append(b"" if answer is None and call_id in self.answers else answer)
            else:
                self._add(*now, heard)
                heard = b""
                answers.append(None)
        if cancelled and not self._again(("cancel", tuple(cancelled))):
            self._add("cancel", tuple(cancelled), heard)
        return answers

    def _again(self, now: Record) -> bool:
        if not self.said:
            return False
        before = self.said.pop(0)[:-1]
        if before != now:
            raise Diverged(f"recorded {before}, now {now}")
        return True

    def answered(self, call_id: int, completion: bytes | None) -> None:
        self._add("answer", call_id, completion)

    def checkpoint(self, label: str, value: bytes) -> None:
        self._add("checkpoint", label, value)

    def ended(self) -> None:
        if self.said:
            raise Diverged(f"recorded {self.said[0][:-1]}, now it ends")


class Tools(Toolset):
    """Tools that count how often they were really called."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()

        async def echo(value: str, delay: float = 0.0) -> str:
            self.made[value] += 1
            await asyncio.sleep(delay)
            return value

        def add(a: int, b: int) -> int:
            self.made["add"] += 1
            return a + b

        async def fail(message: str) -> None:
            self.made["fail"] += 1
            raise ToolError(message)

        async def guarded() -> None:
            raise ApprovalRequired("look at it first")

        super().__init__([echo, add, fail, guarded])


def run(box: Sandbox, code: str, tape: Memory, tools: Tools | None = None, **options: Any) -> Run:
    return box.run_sync(code, tools=tools or Tools(), tape=tape, **options)


def record(box: Sandbox, code: str, **options: Any) -> tuple[Run, list[Record]]:
    tape = Memory()
    return run(box, code, tape, **options), tape.records


def same(one: Run, other: Run) -> bool:
    def seen(run: Run) -> Any:
        calls = [(call.name, call.ok, call.result_bytes) for call in run.calls]
        return run.status, run.result, run.stdout, run.error, run.files, sorted(calls), run.usage.tool_calls

    return bool(seen(one) == seen(other))


def untimed(run: Run) -> Any:
    result: Any = run.result
    return {**result, "times": None, "finished": sorted(result["finished"])}


def refusal(refused: Run) -> str:
    assert refused.status == "error"
    assert refused.error is not None
    assert refused.error.kind == "Diverged"
    return refused.error.message


def unexpected(*_: Any) -> Any:
    raise AssertionError("it should not have been asked")


class TestReplay:
    def test_a_recorded_run_is_the_very_same_again_and_no_tool_is_called(self, box: Sandbox) -> None:
        first, records = record(box, EVERYTHING)
        assert first.status == "completed", first.error
        tape, tools = Memory(records), Tools()
        again = run(box, EVERYTHING, tape, tools)
        assert same(first, again), (first, again)
        assert not tools.made
        assert tape.records == records

    @pytest.mark.parametrize("compiled", [False, True])
    def test_another_sandbox_hands_the_code_over_as_the_first_did(self, box: Sandbox, compiled: bool) -> None:
        code = f"{EVERYTHING}\n# {compiled}, and never run before"
        if compiled:
            box.run_sync(code, tools=Tools())
        first, records = record(box, code)
        assert records[0][1].compiled is compiled
        with Sandbox(limits=box.limits) as other:
            if not compiled:
                other.run_sync(code, tools=Tools())
            assert same(first, run(other, code, Memory(records)))

    def test_every_beginning_of_a_record_is_gone_on_with(self, box: Sandbox) -> None:
        first, records = record(box, EVERYTHING)
        for length in range(1, len(records)):
            answered = {entry[1] for entry in records[:length] if entry[0] == "answer"}
            before = [
                json.loads(entry[3])[0] for entry in records[:length] if entry[0] == "call" and entry[1] in answered
            ]
            tape, tools = Memory(records[:length]), Tools()
            resumed = run(box, EVERYTHING, tape, tools)
            assert resumed.status == "completed", (length, resumed.error)
            assert untimed(resumed) == untimed(first)
            assert not tools.made.keys() & {args[0] for args in before if args and isinstance(args[0], str)}
            assert tape.records[:length] == records[:length]
            tools = Tools()
            assert same(resumed, run(box, EVERYTHING, Memory(tape.records), tools)), length
            assert not tools.made

    def test_sleeps_are_not_slept_again(self) -> None:
        seam = TapedSeam(bytes(32), Taped(1, b"[9000000000,[]],[]"))
        assert seam.cross(9.0, b"", unexpected, unexpected) == b"9.000000000\n"
        assert seam.monotonic_ns() == 9_000_000_001

    def test_the_time_of_day_is_right_after_it_and_the_time_between_is_not_in_the_monotonic_clock(
        self, box: Sandbox
    ) -> None:
        code = """
import time
def now(): return time.time(), time.monotonic()
first = now()
await tools.add(1, 1)
second = now()
await tools.add(2, 2)
[first, second, now()]
"""
        day = 86400
        start = record(box, code)[1][0][1]
        start = Start(start.seed, start.wall_ns - day * 10**9, start.compiled, start.image, start.source)
        tape = Memory([("guest", start), ("call", 1, "add", "[[1, 1], {}]", b"[]"), ("answer", 1, b"[1,1,2]")])
        resumed: Any = run(box, code, tape).result
        first, second, _ = resumed
        assert day - 60 < second[0] - first[0] < day + 60
        assert 0 < second[1] - first[1] < 60
        again: Any = run(box, code, Memory(tape.records)).result
        assert again[:2] == [first, second]

    def test_a_run_that_only_looks_at_the_clock_ends_and_is_the_same_again(self, box: Sandbox) -> None:
        code = """
import time
n, until = 0, time.monotonic() + 0.05
while time.monotonic() < until:
    n += 1
await tools.add(n, 0)
"""
        first, records = record(box, code)
        assert isinstance(first.result, int)
        assert first.result > 64
        tools = Tools()
        assert same(first, run(box, code, Memory(records), tools))
        assert not tools.made

    def test_what_a_long_wait_without_calls_hears_is_recorded_too(self, box: Sandbox) -> None:
        code = (
            "import time\nfor _ in range(5000):\n    time.sleep(0)\nawait tools.add(1, int(time.monotonic() * 1e9) % 7)"
        )
        first, records = record(box, code)
        assert [entry[0:2] for entry in records[1:-1]] == [("cancel", (0,)), ("call", 1)]
        tools = Tools()
        assert same(first, run(box, code, Memory(records), tools))
        assert not tools.made
        assert run(box, code, Memory(records[:2])).status == "completed"

    def test_calls_that_the_guest_cancels_are_not_made_again(self, box: Sandbox) -> None:
        code = """
import asyncio
task = asyncio.create_task(tools.echo("at once", 60))
await asyncio.sleep(0)
task.cancel()
try:
    async with asyncio.timeout(0.002):
        await tools.echo("late", 60)
except TimeoutError:
    pass
await tools.echo("end", 0.001)
"""
        first, records = record(box, code)
        assert first.result == "end", first.error
        assert {entry[1]: entry[2] for entry in records if entry[0] == "answer"} == {
            1: None,
            2: None,
            3: b'[3,1,"end"]',
        }
        tools = Tools()
        assert same(first, run(box, code, Memory(records), tools))
        assert not tools.made

    def test_a_call_that_waits_for_approval_is_not_answered(self, box: Sandbox) -> None:
        paused, records = record(box, "await tools.guarded()")
        assert paused.status == "paused"
        assert [entry[0] for entry in records] == ["guest", "call"]
        again = run(box, "await tools.guarded()", Memory(records))
        assert again.pending == paused.pending
        assert run(box, "await tools.guarded()", Memory([*records, ("answer", 1, b"[1,1,7]")])).result == 7

    def test_tools_are_found_by_name_and_number_of_the_call(self, box: Sandbox) -> None:
        found: list[tuple[str, int]] = []

        class Numbered(Tools):
            def find(self, name: str, call_id: int) -> Any:
                found.append((name, call_id))
                return super().find(name, call_id)

        run(box, "await tools.echo('a')\nawait tools.nothing('b')", Memory(), Numbered())
        assert found == [("echo", 1), ("nothing", 2)]


PLAN = "for name, argument in plan:\n    await tools[name](argument)"


class TestDivergence:
    @pytest.mark.parametrize(
        ("plan", "recorded", "now"),
        [
            ([["echo", "a"], ["echo", "B"]], """'[["b"], {}]'""", """'[["B"], {}]'"""),
            ([["echo", "b"], ["echo", "a"]], """'[["a"], {}]'""", """'[["b"], {}]'"""),
            ([["echo", "a"], ["fail", "b"]], "2, 'echo'", "2, 'fail'"),
            ([["echo", "a"], ["echo", "more"], ["echo", "b"]], """'[["b"], {}]'""", """'[["more"], {}]'"""),
            ([["echo", "a"]], "2, 'echo'", "now it ends"),
            ([], "1, 'echo'", "now it ends"),
        ],
        ids=["other arguments", "another order", "another tool", "one more", "one fewer", "none"],
    )
    def test_is_refused_at_the_call_with_both_sides_shown(
        self, box: Sandbox, plan: list[list[str]], recorded: str, now: str
    ) -> None:
        _, records = record(box, PLAN, inputs={"plan": [["echo", "a"], ["echo", "b"]]})
        tools, tape = Tools(), Memory(records)
        message = refusal(run(box, PLAN, tape, tools, inputs={"plan": plan}))
        assert recorded in message
        assert now in message
        assert not tools.made
        assert tape.records == records

    def test_a_run_that_waits_where_the_recorded_one_called_is_refused(self, box: Sandbox) -> None:
        code = "import asyncio\nif wait:\n    await asyncio.sleep(60)\nawait tools.add(1, 2)"
        _, records = record(box, code, inputs={"wait": False})
        assert "1, 'add'" in refusal(run(box, code, Memory(records), inputs={"wait": True}))

    def test_a_run_that_calls_where_the_recorded_one_waited_is_refused(self, box: Sandbox) -> None:
        code = "import asyncio\nif wait:\n    await asyncio.sleep(0.001)\nawait tools.add(1, 2)"
        _, records = record(box, code, inputs={"wait": True})
        refusal(run(box, code, Memory(records), inputs={"wait": False}))

    def test_another_source_is_refused(self, box: Sandbox) -> None:
        _, records = record(box, "await tools.add(1, 2)")
        refusal(run(box, "await tools.add(1, 3)", Memory(records)))

    @pytest.mark.parametrize(
        "heard",
        [
            b"[",
            b"[" * 100_000,
            b"[],[5,[7]],[]",
            b"[],[5,[1,1]],[]",
            b"[],5,[]",
            b"[],[5,[1]]",
            b"[],[" + b"9" * 30 + b",[]],[]",
        ],
        ids=["no JSON", "too deep", "a call never made", "a call twice", "a number", "no message", "a time too late"],
    )
    def test_a_broken_record_is_no_endless_wait(self, box: Sandbox, heard: bytes) -> None:
        code = "await tools.echo('a')\nawait tools.echo('b')"
        _, records = record(box, code)
        broken = [(*entry[:-1], heard if entry[1] == 1 else b"") if entry[0] == "call" else entry for entry in records]
        refusal(run(box, code, Memory(broken)))

    def test_an_answer_that_is_none_is_refused(self, box: Sandbox) -> None:
        _, records = record(box, "await tools.echo('a')")
        refusal(run(box, "await tools.echo('a')", Memory([*records[:2], ("answer", 1, b"[2,1,3]")])))


class TestWhatCannotBeRecorded:
    def test_stops_the_run_which_can_be_gone_on_with(self, box: Sandbox) -> None:
        code = "checkpoint('begun')\nawait tools.echo('a')\nawait tools.nothing()"
        _, records = record(box, code)
        assert len(records) == 8
        for full_after in range(8):
            tape, tools = Memory(full_after=full_after), Tools()
            stopped = run(box, code, tape, tools)
            assert stopped.status == "crashed", full_after
            assert stopped.error is not None
            assert stopped.error.kind == "NotRecorded"
            assert stopped.error.message == "the run can't be recorded: No space left on device"
            assert len(tape.records) == full_after
            resumed = run(box, code, Memory(tape.records), tools)
            assert resumed.error is not None
            assert resumed.error.kind == "ToolError"

    def test_what_a_guest_makes_of_an_answer_is_recorded_after_it(self, box: Sandbox) -> None:
        """Though the guest has the answer while it is being recorded."""

        class Slow(Memory):
            def answered(self, call_id: int, completion: bytes | None) -> None:
                time.sleep(0.02)
                super().answered(call_id, completion)

        code = "import asyncio\nawait asyncio.gather(*(tools.add(a=n, b=1) for n in range(3)))\n" + (
            "for n in range(3):\n    await tools.add(a=n, b=1)\n" * 2
        )
        tape = Slow()
        done = run(box, code, tape, Tools())
        assert done.status == "completed", done.error
        answered: set[int] = set()
        for kind, *what in tape.records:
            if kind == "answer":
                answered.add(what[0])
            elif kind == "call":
                deliveries = [told[1] for told in json.loads(f"[{what[-1].decode()}]") if len(told) == 2]
                assert answered.issuperset(number for told in deliveries for number in told), tape.records
        assert answered == set(range(1, 10))

    def test_is_what_a_broken_worker_says_it_heard(self) -> None:
        assert wire.split_heard(b"[1,[2]],[]\n[[],[]]") == (b"[1,[2]],[]", b"[[],[]]")
        for heard in (b'"', b"[1]x", b"[" * (wire.MAX_HEARD + 1)):
            with pytest.raises(wire.Closed):
                wire.split_heard(heard + b"\n[[],[]]")

    def test_the_record_of_a_loop_that_watches_the_clock_stays_small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = iter(range(0, 10**14, 10**7))  # each reading 10 ms after the last
        monkeypatch.setattr(
            "go_ent.sandbox.worker.seam.time", SimpleNamespace(monotonic_ns=lambda: next(clock), time_ns=time.time_ns)
        )
        seam = TapedSeam(bytes(32), Taped(1, None))
        sent: list[bytes] = []
        readings = [seam.monotonic_ns() for _ in range(100_000)]
        assert all(later > earlier for earlier, later in pairwise(readings))
        assert readings[-1] >= 10**12 - MAX_GRAIN_NS
        seam.cross(0.0, b"[[],[]]", lambda heard, body: sent.append(heard), lambda wait: None)
        assert sent[0].count(b"[") < 100_000 * 10**7 / MAX_GRAIN_NS + 64 * 12


class TestCheckpoint:
    def test_is_recorded_once_and_is_no_tool_call(self, box: Sandbox) -> None:
        code = (
            "checkpoint('one', {'a': [1, 2.5, None]})\nawait tools.echo('x')\ncheckpoint('two')\nawait tools.echo('y')"
        )
        first, records = record(box, code, limits={"max_tool_calls": 2})
        marks = [entry[1:] for entry in records if entry[0] == "checkpoint"]
        assert marks == [("one", b'{"a":[1,2.5,null]}'), ("two", b"null")]
        assert first.result == "y"
        assert [call.name for call in first.calls] == ["echo", "echo"]
        assert first.usage.tool_calls == 2
        tape = Memory(records)
        assert same(first, run(box, code, tape, limits={"max_tool_calls": 2}))
        assert tape.records == records

    def test_needs_no_tape_and_loses_no_completion(self, box: Sandbox) -> None:
        code = """
import asyncio
task = asyncio.create_task(tools.echo("a", 0.001))
await asyncio.sleep(0)
for n in range(50):
    checkpoint("n", n)
[checkpoint("done"), await task]
"""
        assert box.run_sync(code, tools=Tools()).result == [None, "a"]

    @pytest.mark.parametrize(
        ("code", "kind"),
        [
            ("checkpoint('')", "ValueError"),
            ("checkpoint('x' * 201)", "ValueError"),
            ("checkpoint(5)", "TypeError"),
            ("checkpoint('x', object())", "NotEncodable"),
            ("await tools['<checkpoint>']('x')", "ToolError"),
        ],
    )
    def test_fails_at_the_line_that_wrote_it(self, box: Sandbox, code: str, kind: str) -> None:
        failed = box.run_sync(f"\n{code}")
        assert failed.error is not None
        assert (failed.error.kind, failed.error.line) == (kind, 2)

    def test_an_input_of_that_name_is_the_input(self, box: Sandbox) -> None:
        assert box.run_sync("checkpoint", {"checkpoint": 7}).result == 7

    def test_a_tool_of_that_name_is_a_tool(self, box: Sandbox) -> None:
        def checkpoint(label: str) -> str:
            return label

        called = box.run_sync("checkpoint('mine')\nawait tools.checkpoint('its')", tools=Toolset([checkpoint]))
        assert called.result == "its"
        assert [call.name for call in called.calls] == ["checkpoint"]

    def test_works_in_the_source_of_a_function(self, box: Sandbox) -> None:
        code = "def f(n: int) -> int:\n    'Adds.'\n    checkpoint('n', n)\n    return n + 1"
        assert box.run_sync(code, {"n": 1}, entry="f").result == 2
        described: Any = asyncio.run(box.interface(code, "f")).result
        assert described["problems"] == []

    def test_there_may_not_be_endlessly_many(self, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(broker, "MAX_CHECKPOINTS", 20)
        limited = box.run_sync("import time\nwhile True:\n    checkpoint('again')\n    time.sleep(0.001)")
        assert limited.status == "call_limit"
        assert limited.error is not None
        assert limited.error.message == "the run made more than 20 checkpoints"


class TestInterrupt:
    @pytest.mark.parametrize("replayed", [False, True])
    def test_ends_a_taped_run_wherever_it_is(self, box: Sandbox, replayed: bool) -> None:
        code = "await tools.wait('a')\nawait tools.wait('b')"

        async def main() -> Run:
            begun = asyncio.Event()

            async def wait(value: str) -> str:
                begun.set()
                await asyncio.sleep(60)
                return value

            start = Memory()
            await box.run(code, tools=Toolset(), tape=start)
            records = start.records[:1]
            if replayed:  # the record says that the call was answered, but not what: it is made, and waited for
                records += [
                    ("call", 1, "wait", '[["a"], {}]', b"[]"),
                    ("call", 2, "wait", '[["b"], {}]', b"[9,[1]],[]"),
                ]
            tape = Memory(records)
            task = asyncio.create_task(box.run(code, run_id="taped", tools=Toolset([wait]), tape=tape))
            await begun.wait()
            box.interrupt("taped")
            interrupted = await task
            assert [entry for entry in tape.records if entry[0] == "answer"] == []
            return interrupted

        assert asyncio.run(main()).status == "interrupted"


# Little programs whose value does not depend on time.
NAMES = st.sampled_from("abcdef")
DELAYS = st.sampled_from(["0", "0.0004", "0.002"])
LEAVES = st.one_of(
    st.builds("tools.echo({!r}, {})".format, NAMES, DELAYS),
    st.builds("tools.add({}, 1)".format, st.integers(0, 9)),
    st.builds("asyncio.sleep({}, {!r})".format, DELAYS, NAMES),
    st.builds("caught(tools.fail({!r}))".format, NAMES),
    st.builds("given_up(tools.echo({!r}, 60), {})".format, NAMES, st.sampled_from(["0.0004", "0.002"])),
)
PROGRAMS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"asyncio.gather({', '.join(parts)})"),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"in_turn(lambda: [{', '.join(parts)}])"),
        inner.map("marked({})".format),
    ),
    max_leaves=8,
)
AROUND = """
import asyncio
async def caught(call):
    try:
        return await call
    except ToolError as error:
        return str(error)
async def given_up(call, after):
    try:
        return await asyncio.wait_for(call, float(after))
    except TimeoutError:
        return "given up"
async def in_turn(make):
    return [await part for part in [asyncio.ensure_future(part) for part in make()]]
async def marked(call):
    value = await call
    checkpoint("value", value)
    return value
[await %s, await tools.echo("end")]
"""


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(program=PROGRAMS, cuts=st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_any_program_cut_anywhere_and_gone_on_with_ends_as_if_nothing_had_happened(
    box: Sandbox, program: str, cuts: list[float]
) -> None:
    code = AROUND % program
    first, records = record(box, code)
    assert first.status == "completed", first.error
    for cut in cuts:
        kept = records[: 1 + int(cut * (len(records) - 1))]
        answered = sum(entry[0] == "answer" for entry in kept) - sum(entry[0] == "checkpoint" for entry in kept)
        tape, tools = Memory(kept), Tools()
        resumed = run(box, code, tape, tools)
        assert (resumed.status, resumed.result) == ("completed", first.result)
        assert tools.made.total() <= first.usage.tool_calls - max(answered, 0)
        assert same(resumed, run(box, code, Memory(tape.records)))
        records = tape.records
