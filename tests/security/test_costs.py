"""What a guest costs its host, it pays: the host's work on its messages is bounded, charged to the run, and not done
on the loop.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from go_ent.composer.catalogue.schemas import Checker
from go_ent.sandbox import Limits, Run, Sandbox
from go_ent.sandbox.host.limits import MIB
from go_ent.sandbox.host.process import MARK_NS, WorkerProcess
from go_ent.sandbox.host.tools import Toolset
from go_ent.sandbox.worker import wire
from go_ent.sandbox.worker.outside import MANY, holds_at_most, parse, parse_gently
from tests.conftest import TOOLS, add
from tests.security.breaking import BREAK_OUT
from tests.security.corpus import attack

PROTOCOL = "the run was lost: the guest broke: protocol"


def broken(box: Sandbox, code: str, **limits: float) -> Run:
    run = box.run_sync(BREAK_OUT + code, limits={"timeout_s": 20, "cpu_s": 2, **limits})
    assert box.run_sync("await tools.add(40, 2)").result == 42
    return run


class TestMessages:
    @attack("resources", "megabytes of calls given up, for ever")
    @pytest.mark.parametrize(
        "given_up",
        [
            "'[],' * 1_390_000 + '0'",
            "'{},' * 1_390_000 + '0'",
            "'\"' + 'x' * 4_000_000 + '\"'",
            "'1,' * 2_000_000 + '1'",
        ],
    )
    def test_the_first_message_is_the_last(self, box: Sandbox, given_up: str) -> None:
        run = broken(box, f"message = '0\\n[[],[' + {given_up} + ']]'\nwhile True: door.exchange(message)")
        assert run.error is not None
        assert (run.status, run.error.message, run.usage.tool_calls) == ("crashed", PROTOCOL, 0)

    @attack("resources", "a call of a million values, past the guest's own count")
    @pytest.mark.parametrize(
        "values", ["'{},' * 1_300_000", "'[],' * 20_000", "'\"\",' * 90_000", "('1' * 4000 + ',') * 1000"]
    )
    def test_values_are_counted_before_they_are_built(self, box: Sandbox, values: str) -> None:
        run = broken(box, f"door.exchange('-1\\n[[[1,\"echo\",[[' + {values} + '0]],{{}}]],[]]')")
        assert run.error is not None
        assert (run.status, run.error.message, run.calls) == ("crashed", PROTOCOL, [])

    @attack("resources", "long messages that cost the guest nothing")
    def test_the_hosts_work_is_the_runs(self, box: Sandbox) -> None:
        """The guest sends one message again and again; what the host does with it counts against `cpu_s`."""
        code = (
            "text = ',' * 4_000_000\nn = 0\nwhile True:\n    n += 1\n    "
            'door.exchange(f\'0\\n[[[{n},"no",["{text}"],{{}}]],[]]\')'
        )
        before = time.process_time()
        run = box.run_sync(BREAK_OUT + code, limits={"cpu_s": 1, "max_tool_calls": 1000})
        spent = time.process_time() - before
        assert (run.status, run.usage.cpu_ms >= 990) == ("cpu_limit", True)
        assert spent < 5.0, "the host spent more on the run than the run was allowed"

    @attack("resources", "short messages, each too short for a look at the clock")
    def test_short_messages_are_charged_by_their_brackets(self) -> None:
        charged: list[int] = []

        class Flight:
            listens, over, rooms = True, False, dict[int, int]()

            job = SimpleNamespace(taped=None)

            def act(self, kind: int, payload: bytes) -> None:
                end = time.thread_time_ns() + 2_000_000
                while time.thread_time_ns() < end:
                    pass

            def charge(self, ns: int) -> None:
                charged.append(ns)

        class Heard(WorkerProcess):
            def __init__(self) -> None:
                self.frames, self.alive = wire.Frames(), True
                self.flight: Any = Flight()

        worker, call = Heard(), b'[[[1,"add",[1,2],{}]],[]]'
        worker.take_in(wire.frame(wire.EXCHANGE, call))
        assert charged == [5 * MARK_NS]
        long = wire.frame(wire.EXCHANGE, call + b" " * 1000)
        for piece in (long, long[:1000], long[1000:]):  # by the clock, also what is short but the end of a long one
            worker.take_in(piece)
        for costly in (b'[[[1,"add",["' + b"[" * 100 + b'"],{}]],[]]', call):  # text is not work, a record is
            worker.take_in(wire.frame(wire.EXCHANGE, costly))
            worker.flight.job.taped = "somewhere"
        assert min(charged[-2:]) >= 2_000_000
        assert charged[1] >= 2_000_000
        assert charged[3] >= 2_000_000

    @attack("resources", "a long message read where everybody waits")
    async def test_a_long_message_is_not_read_on_the_loop(self) -> None:
        where: list[tuple[int, threading.Thread]] = []

        class Noting(Toolset):
            def find(self, name: str, call_id: int) -> Any:
                where.append((call_id, threading.current_thread()))
                return super().find(name, call_id)

        async with Sandbox(limits=Limits(timeout_s=20)) as box:
            code = "[len(await tools.echo('short')), len(await tools.echo(text)), len(await tools.echo(text))]"
            run = await box.run(code, {"text": "x," * 500_000}, tools=Noting({"echo": TOOLS["echo"]}))
        assert (run.status, run.result) == ("completed", [5, 1_000_000, 1_000_000]), run.error
        loop = threading.main_thread()
        assert [(call_id, thread is loop) for call_id, thread in where] == [(1, True), (2, False), (3, False)]

    @attack("resources", "the end of a run behind a long message")
    def test_what_comes_behind_a_long_message_waits_for_it(self, box: Sandbox) -> None:
        code = "door.exchange('0\\n[[[1,\"echo\",[\"' + ',' * 3_000_000 + '\"],{}]],[]]')\n'done'"
        for _ in range(3):
            run = broken(box, code)
            assert (run.status, run.result) == ("completed", "done")
            assert [(call.name, call.argument_bytes) for call in run.calls] == [("echo", 3_000_025)]

    @attack("bridge", "a call that nobody waits for, and the end of the run, in one piece")
    async def test_a_run_that_ends_without_waiting_for_its_call_ends(self) -> None:
        async with Sandbox([add], Limits(timeout_s=10)) as box:
            for n in range(3):
                code = "door.exchange('0\\n[[[1,\"add\",[1,2],{}]],[]]')\n'went on'"
                running = asyncio.create_task(box.run(f"{BREAK_OUT}{n}\n{code}"))
                await asyncio.sleep(0)  # it is on its way
                threading.Event().wait(0.3)  # and the loop stands still: both are read at once
                run = await running
                assert (run.status, run.result) == ("completed", "went on"), run.error
                assert [call.name for call in run.calls] == ["add"]

    @attack("worker", "a message of megabytes, in pieces and with others around it")
    @pytest.mark.parametrize("piece", [1000, wire.RECEIVE, 10_000_000])
    def test_a_long_frame_is_given_out_whole(self, piece: int) -> None:
        sent = [
            (wire.READY, b""),
            (wire.DONE, bytes(range(256)) * 4000),
            (wire.READY, b"x" * 70_000),
            (wire.HELLO, b"1"),
        ]
        data = b"".join(wire.frame(kind, payload) for kind, payload in sent)
        frames, found = wire.Frames(), []
        for at in range(0, len(data), piece):
            frames.feed(data[at : at + piece])
            while (frame := frames.next()) is not None:
                found.append((frame[0], bytes(frame[1])))
        assert found == sent
        assert not frames.large

    @attack("worker", "an end with a reason of megabytes")
    @pytest.mark.parametrize("kind", [1, 2])
    def test_a_reason_is_cut_before_it_is_read(self, kind: int) -> None:
        end, *_ = wire.decode_done(bytearray(wire.DONE_HEAD.pack(kind, 0, 0, 0, wire.AT_ONCE) + b"\xff" * 20_000_000))
        assert len(end.reason or end.trap or "") == wire.MAX_REASON


class TestAnswers:
    @attack("resources", "a long answer read where everybody waits")
    async def test_a_long_answer_is_not_read_on_the_loop(self) -> None:
        where: list[threading.Thread] = []

        class Files(dict[str, bytes]):
            def __getitem__(self, name: str) -> bytes:
                where.append(threading.current_thread())
                return super().__getitem__(name)

        async with Sandbox() as box:
            result = await box.run("1", files=Files(a=b"kept")), await box.run("'x' * 500_000", files=Files(a=b"kept"))
        for run in result:
            assert (run.status, run.files) == ("completed", {"a": b"kept"})
        assert [thread is threading.main_thread() for thread in where] == [True, False]

    @attack("resources", "an answer longer than any")
    @pytest.mark.parametrize(
        "answer", ["'x' * 45_000_000", "'\\0' * 45_000_000", "'{\"status\":[' + '[],' * 80_000 + '0]}\\0001\\0'"]
    )
    def test_an_answer_is_bounded_before_it_is_read(self, box: Sandbox, answer: str) -> None:
        run = broken(box, f"runner._finish = lambda *a, **k: {answer}\n1")
        assert (run.status, run.result) == ("crashed", None)

    @attack("resources", "a megabyte of the smallest values")
    @pytest.mark.parametrize("unit", ["{}", "[]", "1", '{"a":1}'])
    def test_a_result_of_many_values_is_read_in_small_steps(self, unit: str) -> None:
        text = f"[{','.join([unit] * (MANY + 1))}]".encode()
        assert not holds_at_most(text, MANY)
        assert parse_gently(text, None) == parse(text, None)

    @attack("resources", "a megabyte of values that is nearly JSON")
    @pytest.mark.parametrize(
        "bad", ["[" * 201 + "]" * 201, '"\\ud800"', "9" * 5000, "01", "'x'", '"\x01"', "[1,]", '{"a"}']
    )
    def test_small_steps_take_no_more_than_large_ones(self, bad: str) -> None:
        text = f"[{'0,' * (MANY + 1)}{bad}]".encode()
        for read in (parse, parse_gently):
            with pytest.raises(ValueError):  # noqa: PT011
                read(text, None)
        with pytest.raises(ValueError, match="at most 10 are accepted"):
            parse_gently(text, 10)


class TestCounting:
    def test_values_outside_texts_count(self) -> None:
        rng = random.Random(1)

        def value(depth: int) -> Any:
            kind = rng.randrange(6 if depth else 4)
            if kind == 4:
                return [value(depth - 1) for _ in range(rng.randrange(5))]
            if kind == 5:
                return {f'k"{n}\\': value(depth - 1) for n in range(rng.randrange(5))}
            return ("", '\\"[{,\\\\', 7, None)[kind]

        def marks(value: Any) -> int:
            inner = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else None
            return 0 if inner is None else 1 + max(0, len(inner) - 1) + sum(map(marks, inner))

        for _ in range(300):
            tree = [value(4) for _ in range(3)]
            text, count = json.dumps(tree).encode(), marks(tree)
            assert holds_at_most(text, count)
            assert len(text) <= count - 1 or not holds_at_most(text, count - 1)

    def test_a_text_is_one_value_whatever_is_in_it(self) -> None:
        for text in ("a,b\n" * 100_000, '{"a":[' * 50_000, '\\"' * 50_000, "1234567890" * 40_000, "\\" * 100_001):
            assert holds_at_most(json.dumps([[[1, "t", [text], {}]], []]).encode(), 10)

    def test_the_honest_guest_is_told_before_it_sends(self, box: Sandbox) -> None:
        run = box.run_sync("await tools.echo(list(range(30_000)))")
        assert run.error is not None
        assert (run.status, run.error.kind, run.calls) == ("error", "ToolError", [])
        assert "its arguments are about 30006 values; at most 20971 are accepted" in run.error.message
        code = "import asyncio\nlen(await asyncio.gather(*(tools.echo(v, 0) for v in vs), return_exceptions=True))"
        run = box.run_sync(code, {"vs": [["a"] * 9000] * 20})
        assert (run.status, run.result, len(run.calls)) == ("completed", 20, 20)

    def test_many_calls_are_given_up_at_once(self) -> None:
        async def slow(n: int) -> int:
            await asyncio.sleep(30)
            return n

        code = (
            "import asyncio\nts = [asyncio.ensure_future(tools.slow(n)) for n in range(700)]\nawait "
            "asyncio.sleep(0.01)\n"
            "for t in ts: t.cancel()\nawait asyncio.gather(*ts, return_exceptions=True)\n'went on'"
        )
        with Sandbox([slow], Limits(timeout_s=20)) as box:
            run = box.run_sync(code)
        assert (run.status, run.result, len(run.calls)) == ("completed", "went on", 700), run.error

    def test_the_most_values_follow_the_most_bytes(self) -> None:
        assert Limits().max_call_values == 20_971
        assert Limits(max_call_bytes=40 * MIB).max_call_values == 209_715
        assert Limits(max_call_bytes=1).max_call_values == 10_000
        assert Limits(max_call_bytes=None).max_call_values is None


@attack("resources", "arguments of which thousands are wrong")
def test_of_many_wrong_values_only_the_first_is_told() -> None:
    """To tell them all, all are made first: a tenth of a second on the loop."""
    checker = Checker({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}})
    assert checker.problems({"a": ["x", 1, "y"]}) == [
        'a[0]: "x" is not of type "integer"',
        'a[2]: "y" is not of type "integer"',
    ]
    assert checker.problems({"a": ["x"] * 20_000}) == ['a[0]: "x" is not of type "integer"']
