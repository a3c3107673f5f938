"""A guest that has broken its own interpreter, and speaks to the host as it likes.

The policy is not the wall: these programs get past it on purpose, and then abuse the door that every guest has.
"""

from __future__ import annotations

import asyncio
import gc
import time

import pytest

from go_ent.sandbox import Limits, Run, Sandbox
from go_ent.sandbox.host.tools import scrub
from tests.security.breaking import BREAK_OUT
from tests.security.corpus import attack


def hostile(box: Sandbox, code: str, **limits: float) -> Run:
    run = box.run_sync(BREAK_OUT + code, limits={"timeout_s": 30, "cpu_s": 1.5, **limits})
    assert box.run_sync("6 * 7").result == 42  # nobody else is affected
    return run


class TestMessages:
    @attack("bridge", "messages that are malformed")
    @pytest.mark.parametrize(
        "body",
        [
            "not json",
            "[]",
            "{}",
            "null",
            "[[],[],[]]",
            "[[],[]]",
            "[[],[" + " " * 1000 + "]]",
            "[1,2]",
            "[[1],[]]",
            "[[[1,2,3,4]],[]]",
            '[[["1","add",[],{}]],[]]',
            '[[[true,"add",[],{}]],[]]',
            '[[[-1,"add",[],{}]],[]]',
            '[[[0,"add",[],{}]],[]]',
            '[[[99999999999999999999,"add",[],{}]],[]]',
            '[[[1.5,"add",[],{}]],[]]',
            '[[[1,"add",{},[]]],[]]',
            "[[[1,7,[],{}]],[]]",
            '[[[1,"echo",["a"],{"delay":9}],[1,"echo",["b"],{}]],[]]',
            '[[],{"a":1}]',
            "[" * 100_000,
            '[[[1,"add",[' + "[" * 5000 + "]" * 5000 + "],{}]],[]]",
        ],
    )
    def test_malformed_messages_end_the_run(self, box: Sandbox, body: str) -> None:
        run = hostile(box, f"door.exchange('0\\n' + {body!r})\ndoor.exchange('1\\n')\n'went on'")
        assert run.status == "crashed"
        assert run.error is not None
        assert run.error.message == "the run was lost: the guest broke: protocol"

    @attack("bridge", "a wait that is no number")
    @pytest.mark.parametrize("wait", ["", "x", "1,5", "0x10"])
    def test_a_wait_that_is_no_number(self, box: Sandbox, wait: str) -> None:
        assert hostile(box, f"door.exchange({wait!r} + '\\n')").status == "crashed"

    @attack("bridge", "a wait for ever")
    @pytest.mark.parametrize("wait", ["nan", "inf", "1e400", "-inf", "1e300"])
    def test_a_wait_for_ever_is_a_timeout(self, box: Sandbox, wait: str) -> None:
        assert hostile(box, f"door.exchange({wait!r} + '\\n')", timeout_s=0.3).status == "timeout"

    @attack("bridge", "messages of megabytes")
    @pytest.mark.parametrize(
        "code",
        [
            "door.exchange('0\\n[[],[' + '1,' * 3_000_000 + '1]]')",
            "door.exchange('0\\n[[],[' + '[],' * 3_000_000 + '1]]')",
            "door.exchange('0\\n[[' + ','.join(f'[{n},\"add\",[1,2],{{}}]' for n in range(1, 200_000)) + '],[]]')",
            "door.exchange('0\\n' + 'x' * 30_000_000)",
        ],
    )
    def test_giant_messages_are_not_read(self, box: Sandbox, code: str) -> None:
        run = hostile(box, code)
        assert run.status in ("crashed", "memory_limit", "cpu_limit")
        assert run.usage.tool_calls == 0

    @attack("bridge", "calls given up that were never made")
    @pytest.mark.parametrize("given_up", ["1", "0", "-1", "null", '"x"', "true", "1.0", "[]", "{}", "1,2,3", "9" * 400])
    def test_what_was_never_made_can_not_be_given_up(self, box: Sandbox, given_up: str) -> None:
        run = hostile(box, f"door.exchange('0\\n[[],[{given_up}]]')\ndoor.exchange('1\\n')\nawait tools.add(1, 2)")
        assert run.error is not None
        assert (run.status, run.error.message, run.calls) == (
            "crashed",
            "the run was lost: the guest broke: protocol",
            [],
        )

    @attack("bridge", "crossings without end")
    def test_a_flood_of_crossings_is_only_cpu(self, box: Sandbox) -> None:
        assert hostile(box, "while True: door.exchange('0\\n')", cpu_s=0.3).status == "cpu_limit"

    @attack("bridge", "names of tools that nobody granted")
    def test_calls_that_nobody_granted(self, box: Sandbox) -> None:
        names = [
            "__class__",
            "add.__globals__",
            "../add",
            "add ",
            "ADD",
            "аdd",
            "add\\\\u0000",
            "",
            "__proto__",
            "a" * 100_000,
        ]
        body = ",".join(f'[{n},"{name}",[1,2],{{}}]' for n, name in enumerate(names, 1))
        run = hostile(
            box, f"import json\nout = door.exchange('5\\n[[{body}],[]]')\nout.count('there is no such tool') > 0"
        )
        assert run.result is True
        assert [call.ok for call in run.calls] == [False] * len(names)
        assert all(len(call.name) <= 200 for call in run.calls)

    @attack("bridge", "output past the guest's own limit")
    def test_output_past_its_limit(self, box: Sandbox) -> None:
        run = hostile(box, "for n in range(1000): door.write('x' * 100_000)\n1", max_stdout_bytes=1000)
        assert run.status == "completed"
        assert len(run.stdout) <= 1000 + 256


class TestAnswers:
    @attack("bridge", "answers that are forged")
    @pytest.mark.parametrize(
        "answer",
        [
            "",
            "garbage",
            "[]",
            "5",
            '{"status":"paused"}',
            '{"status":"interrupted"}',
            '{"status":7}',
            '{"result":1}',
            '{"status":"completed"}\\0[1\\0[{"../x":4},[]]\\0eA==',
            '{"status":"completed"}\\x001\\0[{"/etc/x":4},[]]\\0eA==',
            '{"status":"completed"}\\x001\\0[{"a/./b":4},[]]\\0eA==',
            '{"status":"completed"}\\x001\\0[{"..\\\\\\\\x":"eA=="},[]]',
            '{"status":"completed"}\\x001\\0[{"":4},[]]\\0eA==',
            '{"status":"completed"}\\x001\\0[{"a":8},[]]\\0not!base',
            '{"status":"completed"}\\x001\\0[{"a":7},[]]\\0eA==eA=',
            '{"status":"completed"}\\x001\\0null',
            '{"status":"completed"}\\x001\\0[[],{}]',
            '{"status":"error","error":5}',
            '{"status":"error","error":{"kind":1,"message":[]}}',
            '{"status":"error","error":{"kind":"a","message":"b","extra":1}}',
            '{"status":"result_limit","size":"many"}',
            '{"status":"completed","error":{"kind":"a","message":"b"}}\\x001\\0',
            '{"status":"completed","error":null}\\x001\\0',
            '{"status":"completed","more":1}\\x001\\0',
            '{"status":"error"}\\0\\0',
            '{"status":"refused"}\\0\\0',
            '{"status":"error","error":{"kind":"a","message":"b"}}\\x001\\0',
            '{"status":"memory_limit","error":{"kind":"a","message":"b"}}\\0\\0',
            '{"status":"completed"}\\x001\\0[{"a":4},[]]',
            '{"status":"completed"}\\x001\\0[{"a":4},[]]\\0eA==eA==',
            '{"status":"completed"}\\x001\\0[{"a":8},[]]\\0eA==',
            '{"status":"completed"}\\x001\\0[{"a":-4},[]]\\0eA==',
            '{"status":"completed"}\\x001\\0[{"a":true},[]]\\0e',
            '{"status":"completed"}\\x001\\0[{"a":4},["a"]]\\0eA==',
            '{"status":"error","error":{"kind":"a","message":"' + "x" * 400_000 + '"}}',
        ],
    )
    def test_forged_answers_are_a_crash(self, box: Sandbox, answer: str) -> None:
        run = hostile(box, f"runner._finish = lambda *a, **k: {answer!r}.encode().decode('unicode_escape')\n1")
        assert run.status == "crashed"
        assert run.result is None
        assert run.files == {}
        assert run.error is not None
        assert run.error.message == "the guest answered with something that is not an answer"

    @attack("bridge", "a result past the guest's own limit")
    def test_a_result_past_its_limit(self, box: Sandbox) -> None:
        code = "runner._finish = lambda *a, **k: '{\"status\":\"completed\"}\\0[' + '[],' * 5_000_000 + '0]\\0'\n1"
        gc.collect()
        run = hostile(box, code, max_result_bytes=100)
        assert run.status == "error"
        assert run.result is None
        assert run.error is not None
        assert "at most 100 are accepted" in run.error.message

    @attack("bridge", "an exception's type of a million letters")
    def test_errors_are_cut(self, box: Sandbox) -> None:
        run = box.run_sync("raise type('E' * 900_000, (Exception,), {})('x' * 900_000)")
        assert run.status == "error"
        assert run.error is not None
        assert len(run.model_dump_json()) < 60_000

    @attack("bridge", "exceptions made to break the report")
    @pytest.mark.parametrize(
        "code",
        [
            "e = ValueError()\ne.__notes__ = 5\nraise e",
            "class N:\n    def __str__(self): raise OSError\ne = ValueError()\ne.__notes__ = [N()]\nraise e",
            "class E(Exception):\n    def __str__(self): return 5\nraise E",
            "class M(type):\n    @property\n    def __name__(self): raise OSError\nclass E(Exception, "
            "metaclass=M): pass\nraise E",
            "class M(type):\n    @property\n    def __name__(self): raise SystemExit\nclass E(Exception, "
            "metaclass=M): pass\nraise E",
            "class E(Exception):\n    @property\n    def __notes__(self): raise KeyboardInterrupt\nraise E",
            "class N:\n    def __str__(self): raise GeneratorExit\ne = ValueError()\ne.__notes__ = [N()]\nraise e",
            "class E(Exception):\n    @property\n    def line(self): raise KeyboardInterrupt\n    "
            "__traceback__ = None\nraise E",
            "e = NameError('x')\ne.name = 5\nraise e",
            "e = SyntaxError('x')\ne.lineno = 'a'\nraise e",
            "class A:\n    def __dir__(self): raise OSError\nA().nothing",
            "e = ToolError('a')\ne.name = 5\nraise e",
        ],
    )
    def test_exceptions_made_to_break_the_report(self, box: Sandbox, code: str) -> None:
        run = box.run_sync(code)
        assert run.status == "error"
        assert run.error is not None
        assert "/guest/" not in run.model_dump_json()


class TestCache:
    POISON = (
        "code = real.compile(\"x = 'poisoned ' + str(secret)\", 'code.py', 'exec')\n"
        "code = code.replace(**{'co_' + 'names': ('<result>', 'str', 'secret')})\n"
        "runner.prepare = lambda source: code\nsecret = 1\n"
    )

    @attack("state", "a compiler replaced in a session")
    def test_a_session_can_not_poison_another_run(self, box: Sandbox) -> None:
        source = f"len(secret)  # {id(box)}"
        with box.session() as session:
            assert session.run_sync(BREAK_OUT + self.POISON).status == "completed"
            session.run_sync(source, {"secret": "mine"})
        assert box.run_sync(source, {"secret": "theirs"}).result == 6

    @attack("state", "code kept twice")
    def test_only_the_first_keep_counts(self, box: Sandbox) -> None:
        source = BREAK_OUT + f"door.keep('Z' * 10)\ndoor.keep('!')\n{id(box)}"
        assert box.run_sync(source).result == id(box)
        assert box.run_sync(source).result == id(box)


class TestHost:
    @attack("bridge", "answers of runs beside it")
    async def test_late_and_foreign_completions(self, box: Sandbox) -> None:
        jobs = [box.run(f"[await tools.echo('{n}', delay=0.01 * {n % 5}) for _ in range(5)]") for n in range(20)]
        result = await asyncio.gather(*jobs)
        for n, run in enumerate(result):
            assert run.result == [str(n)] * 5

    @attack("resources", "results that nobody reads")
    @pytest.mark.more
    def test_results_nobody_reads_do_not_pile_up(self) -> None:
        def big() -> str:
            return "x" * 3_900_000

        code = (
            "import asyncio\nts = [asyncio.ensure_future(tools.big()) for _ in range(300)]\n"
            "for _ in range(3): await asyncio.sleep(0)\nwhile True: pass"
        )
        import psutil

        with Sandbox([big], Limits(timeout_s=1)) as box:
            before = psutil.Process().memory_info().rss
            assert box.run_sync(code).status == "timeout"
            # At most 64 calls are made at a time, and 64 MB wait; all of them would be 1.2 GB.
            assert psutil.Process().memory_info().rss - before < 500 << 20

    @attack("resources", "a message that is slow to clean")
    @pytest.mark.parametrize(
        "text", ["+/" * 40_000, "/a" * 40_000, "/" * 80_000, "a/" * 40_000, "/a/b.py" * 10_000, "C:\\" * 20_000]
    )
    def test_scrubbing_takes_no_time(self, text: str) -> None:
        started = time.thread_time()
        scrub(text)
        assert time.thread_time() - started < 2.0, "it grows with the square of the text"

    @attack("secrets", "paths of the host in a tool's error")
    @pytest.mark.parametrize(
        ("message", "expected"),
        [
            ("open '/srv/app/config/secret.yaml' failed", "open '<path>' failed"),
            ("/etc/shadow: no", "<path>: no"),
            ("see https://example.org/a/b and and/or", "see https://example.org/a/b and and/or"),
            ("C:\\Users\\bob\\secret.txt", "<path>"),
            ("['/usr/bin/false', '~/x']", "['<path>', '<path>']"),
            ("1/2 of 3 / 4", "1/2 of 3 / 4"),
        ],
    )
    def test_paths_are_scrubbed(self, message: str, expected: str) -> None:
        assert scrub(message) == expected

    @attack("bridge", "a tool that fails in a way that can not be told")
    @pytest.mark.parametrize("kind", ["surrogate", "silent", "bytes", "cancelled", "chained"])
    def test_every_failure_of_a_tool_is_answered(self, kind: str) -> None:
        class Silent(Exception):
            def __str__(self) -> str:
                raise KeyError("/root/secret")

        failures: dict[str, BaseException] = {
            "surrogate": ValueError("bad \udcff.txt"),
            "silent": Silent(),
            "bytes": OSError(5, b"bytes"),
            "cancelled": asyncio.CancelledError(),
            "chained": RuntimeError("outer"),
        }

        def plain() -> None:
            raise failures[kind] from OSError("/root/secret/file")

        async def later() -> None:
            raise failures[kind]

        with Sandbox([plain, later], Limits(timeout_s=3)) as box:
            for call in ("plain", "later"):
                run = box.run_sync(
                    f"try:\n    await tools.{call}()\nexcept ToolError as e:\n    result = 'caught'\nresult"
                )
                assert run.result == "caught"
                assert "/root/secret" not in run.model_dump_json()

    @attack("resources", "arguments that are wrong half a million times")
    def test_a_million_wrong_values(self) -> None:
        def ints(xs: list[int]) -> int:
            return len(xs)

        with Sandbox([ints]) as box:
            run = box.run_sync("await tools.ints(['a'] * 500_000)")
            few = box.run_sync("await tools.ints(['a'] * 20_000)")
        assert run.error is not None
        assert few.error is not None
        assert (run.error.line, run.calls) == (1, [])
        assert "its arguments are about 500006 values; at most 20971 are accepted" in run.error.message
        assert "20000 of the values are not valid" in few.error.message
