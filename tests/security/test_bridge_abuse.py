"""The door between guest and host, used as it was not meant: by a broken guest's own messages, and by code that is
merely sly.

What the host did is read off its audit, which no guest can write to.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from go_ent.sandbox import ApprovalRequired, Limits, Run, Sandbox
from go_ent.sandbox.host.tools import Toolset
from tests.conftest import TOOLS
from tests.security.breaking import BREAK_OUT
from tests.security.corpus import attack

PROTOCOL = "the run was lost: the guest broke: protocol"
NOT_AN_ANSWER = "the guest answered with something that is not an answer"
# What a panic ends in: where the kernel shuts workers in, one that would print why is ended before it has.
PANIC = (
    "the run was lost: the guest broke: wasm `unreachable` instruction executed",
    "the run was lost: its worker died",
)


def said(message: str, wait: str = "-1") -> str:
    """Code that sends *message* and gives what comes back, without the time."""
    return f"door.exchange({wait!r} + '\\n' + {message!r}).partition('\\n')[2]"


def call(number: int, name: str, *args: object, given_up: list[int] | None = None) -> str:
    """A message that makes one call."""
    return json.dumps([[[number, name, args, {}]], given_up or []])


def broken(box: Sandbox, code: str, **limits: float) -> Run:
    run = box.run_sync(BREAK_OUT + code, limits={"timeout_s": 5, "cpu_s": 2, **limits})
    assert box.run_sync("await tools.add(40, 2)").result == 42
    return run


def audit(run: Run) -> list[tuple[str, bool, str | None]]:
    return [(call.name, call.ok, call.error) for call in run.calls]


def lost(run: Run, *messages: str) -> None:
    assert run.error is not None, run.result
    assert (run.status, run.error.kind, run.result) == ("crashed", "crashed", None)
    assert run.error.message in messages


class TestNumbers:
    @attack("bridge", "the last number there is, so that no other can follow")
    def test_the_last_number_is_the_last_call(self, box: Sandbox) -> None:
        last = (1 << 53) - 1
        run = broken(box, f"print({said(call(last, 'add', 1, 2))})\nawait tools.add(1, 2)")
        lost(run, PROTOCOL)
        assert run.stdout == f"[[{last},1,3]]\n"
        assert audit(run) == [("add", True, None)]

    @attack("bridge", "a number of an earlier call, for another tool")
    def test_a_number_is_never_used_again(self, box: Sandbox) -> None:
        run = broken(box, f"await tools.add(1, 2)\n{said(call(1, 'fail', 'again'))}")
        lost(run, PROTOCOL)
        assert audit(run) == [("add", True, None)]

    @attack("bridge", "numbers that JSON can write and nobody can read")
    @pytest.mark.parametrize("number", ["9" * 5000, "1e400", "-0", "1.0", "01"])
    def test_odd_numbers_of_calls(self, box: Sandbox, number: str) -> None:
        run = broken(box, said(f'[[[{number},"add",[1,2],{{}}]],[]]'))
        lost(run, PROTOCOL)
        assert run.calls == []

    @attack("bridge", "a call given up in the message that makes it")
    def test_a_call_given_up_at_once(self, box: Sandbox) -> None:
        run = broken(
            box, f"[{said(call(1, 'echo', 'a', 0.05, given_up=[1]), '0')}, {said(call(2, 'echo', 'b', 0.02))}]"
        )
        assert run.result == ["", '[[2,1,"b"]]']
        assert audit(run) == [("echo", False, "Cancelled: cancelled"), ("echo", True, None)]

    @attack("bridge", "a call given up again and again")
    def test_a_call_is_given_up_once(self, box: Sandbox) -> None:
        for again in (said("[[],[1,1]]", "0"), f"{said('[[],[1]]', '0')}\n{said('[[],[1]]', '0')}"):
            run = broken(box, f"{said(call(1, 'echo', 'a', 9), '0')}\n{again}\n{said(call(2, 'echo', 'b', 0.02))}")
            lost(run, PROTOCOL)
            assert [(one.name, one.ok) for one in run.calls] == [("echo", False)]

    @attack("bridge", "a call given up before it is made")
    def test_a_later_call_can_not_be_given_up(self, box: Sandbox) -> None:
        run = broken(box, f"{said(call(1, 'echo', 'a', 9, given_up=[2]), '0')}\n{said(call(2, 'echo', 'b'))}")
        lost(run, PROTOCOL)
        assert run.calls == []


class TestText:
    @attack("bridge", "a key written twice")
    def test_the_last_of_two_keys_is_what_is_validated_and_used(self, box: Sandbox) -> None:
        run = broken(box, said('[[[1,"add",[],{"a":1,"b":3,"a":"not a number","a":5}]],[]]'))
        assert run.result == "[[1,1,8]]"

    @attack("bridge", "keys that are special elsewhere")
    @pytest.mark.parametrize(
        "key", ["__proto__", "constructor", "__class__", "__dict__", "self", "cls", "function", "*", "**kwargs", "a.b"]
    )
    def test_special_keys_are_unknown_ones(self, box: Sandbox, key: str) -> None:
        run = box.run_sync("await tools.add(1, 2, **{key: {'x': 1}})", {"key": key})
        assert run.error is not None
        assert (run.status, run.error.kind) == ("error", "ToolError")
        assert run.error.message == f"add: there is no argument {key}; it takes a, b"
        assert audit(run) == [("add", False, f"InvalidArguments: there is no argument {key}; it takes a, b")]

    @attack("bridge", "half a character, escaped")
    def test_a_lone_surrogate_is_no_message(self, box: Sandbox) -> None:
        lost(broken(box, said('[[[1,"echo",["\\ud800"],{}]],[]]')), PROTOCOL)

    @attack("bridge", "half a character, as it is")
    def test_a_raw_surrogate_does_not_leave_the_guest(self, box: Sandbox) -> None:
        run = broken(box, "door.exchange('-1\\n[[[1,\"echo\",[\"' + chr(0xD800) + '\"],{}]],[]]')")
        lost(run, *PANIC)
        assert run.calls == []

    @attack("bridge", "half a character, through a tool call")
    def test_a_surrogate_as_an_argument_is_named(self, box: Sandbox) -> None:
        run = box.run_sync("await tools.echo('a' + chr(0xDFFF))")
        assert run.error is not None
        assert (run.status, run.error.kind) == ("error", "NotEncodable")
        assert run.error.message == (
            "arguments of tools.echo[2][0]: text with a lone surrogate can't be encoded as JSON; it is not "
            "valid Unicode"
        )
        assert run.calls == []

    @attack("bridge", "half a character, as the name of an argument or in a mapping")
    @pytest.mark.parametrize(
        ("code", "path"),
        [
            ("await tools.echo(**{'\\ud800': 1})", "arguments of tools.echo[3]"),
            ("await tools.echo({'a': [{'\\udfff': 1}]})", "arguments of tools.echo[2][0]['a'][0]"),
        ],
    )
    def test_a_surrogate_as_a_key_is_named(self, box: Sandbox, code: str, path: str) -> None:
        run = box.run_sync(code)
        assert run.error is not None
        assert (run.status, run.error.kind, run.calls) == ("error", "NotEncodable", [])
        assert run.error.message.startswith(f"{path}: text with a lone surrogate can't be encoded")

    @attack("bridge", "half a character, in a tool's name, in JavaScript")
    def test_a_surrogate_in_a_name_is_named(self, box: Sandbox) -> None:
        run = box.run_sync("await tools['\\ud800']({})", language="javascript")
        assert run.error is not None
        assert (run.status, run.error.kind, run.calls) == ("error", "NotEncodable", [])

    @attack("bridge", "a NUL in a text")
    def test_nul_is_a_character_like_others(self, box: Sandbox) -> None:
        assert box.run_sync("await tools.echo('a\\0b') == 'a\\0b'").result is True
        run = broken(box, said('[[[1,"echo",["a\x00b"],{}]],[]]'))
        lost(run, PROTOCOL)

    @attack("bridge", "numbers that are none")
    @pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
    def test_numbers_that_are_none_are_not_integers(self, box: Sandbox, number: str) -> None:
        run = broken(box, said(f'[[[1,"add",[{number},1],{{}}]],[]]'))
        assert run.result == '[[1,0,{"kind":"InvalidArguments","message":"a: it should be a finite number"}]]'
        assert audit(run) == [("add", False, "InvalidArguments: a: it should be a finite number")]

    @attack("bridge", "a mark, a comment or a comma where none belongs")
    @pytest.mark.parametrize(
        "form", ["\ufeff[{},[]]", "[{},[]] ", "[{},[]]x", "[{},[],]", "/*c*/[{},[]]", "[{},[]][{},[]]", "[{} [],[]]"]
    )
    def test_nearly_json(self, box: Sandbox, form: str) -> None:
        body = form.replace("{}", '[[1,"add",[1,2],{}]]')
        run = broken(box, f"{said(body, '0')}\n'went on'")
        if form.strip() == "[{},[]]":
            assert run.result == "went on"  # white space is JSON's
        else:
            lost(run, PROTOCOL)


class TestNames:
    @attack("bridge", "a namespace for a tool, and dots where none belong")
    @pytest.mark.parametrize(
        "name", ["deep", "deep.er", "deep..er.add", ".add", "add.", "tools.add", "deep/er/add", "deep.er.add.__call__"]
    )
    def test_paths_that_lead_to_no_tool(self, box: Sandbox, name: str) -> None:
        self.unknown(box, name)

    @attack("bridge", "a name in other letters' case")
    @pytest.mark.parametrize("name", ["ADD", "Add", "Deep.er.add", "deep.Er.add"])
    def test_case_counts(self, box: Sandbox, name: str) -> None:
        self.unknown(box, name)

    @attack("bridge", "letters that look the same")
    @pytest.mark.parametrize(
        "name", ["аdd", "ａdd", "ádd", "add\u200b", "\u202eadd", "ad\u0064\u0301", "add\x00", "𝐚𝐝𝐝"]
    )
    def test_look_alikes_are_other_names(self, box: Sandbox, name: str) -> None:
        self.unknown(box, name)

    def unknown(self, box: Sandbox, name: str) -> None:
        run = box.run_sync("await tools[name](1, 2)", {"name": name})
        assert run.error is not None, run.result
        assert (run.status, run.error.kind, run.error.message) == (
            "error",
            "ToolError",
            f"{name}: there is no such tool",
        )
        assert run.error.hint
        assert "available: tools.add" in run.error.hint
        assert audit(run) == [(name, False, "UnknownTool: there is no such tool")]

    @attack("bridge", "a look-alike that Python itself reads as the name")
    def test_normalised_names_are_audited_as_what_they_are(self, box: Sandbox) -> None:
        run = box.run_sync("await tools.ａｄｄ(1, 2)")
        assert run.result == 3
        assert audit(run) == [("add", True, None)]

    @attack("bridge", "no name at all")
    @pytest.mark.parametrize("name", ["", None, 7, "__class__", b"add"])
    def test_what_is_no_name_never_crosses(self, box: Sandbox, name: object) -> None:
        run = box.run_sync(f"await tools[{name!r}](1, 2)")
        assert run.error is not None
        assert (run.status, run.error.kind) == ("error", "ToolError")
        assert run.error.message.endswith("there is no such tool")
        assert run.calls == []

    @attack("bridge", "a tool proxy made to carry another name")
    def test_a_renamed_proxy_is_granted_by_its_new_name(self, box: Sandbox) -> None:
        run = box.run_sync("tools.add._name = 'secret.add'\nawait tools.add(1, 2)")
        assert run.error is not None
        assert run.error.message == "secret.add: there is no such tool"
        assert audit(run) == [("secret.add", False, "UnknownTool: there is no such tool")]

    @attack("bridge", "the guest's own list of tools, added to")
    def test_the_guests_list_grants_nothing(self, box: Sandbox) -> None:
        run = broken(
            box,
            "modules['guest.bridge'].bridge.names.append('secret')\nprint('secret' "
            "in dir(tools))\nawait tools.secret()",
        )
        assert run.error is not None
        assert (run.stdout, run.error.message) == ("True\n", "secret: there is no such tool")

    @attack("bridge", "a tool that another run was granted")
    def test_a_narrower_run_has_the_narrower_tools(self, box: Sandbox) -> None:
        run = box.run_sync(BREAK_OUT + said(call(1, "add", 1, 2)), tools=Toolset({"echo": TOOLS["echo"]}))
        assert run.result == '[[1,0,{"kind":"UnknownTool","message":"there is no such tool"}]]'

    @attack("bridge", "the name that checkpoints come under")
    def test_a_forged_checkpoint_is_no_more_than_one(self, box: Sandbox) -> None:
        run = box.run_sync("await tools['<checkpoint>']('label', 1)")
        assert (run.status, run.result, run.calls) == ("completed", None, [])
        for arguments in ("'l' * 201, 1", "'', 1", "1, 2", "'a'", "'a', 1, 2", "'a', 1, b=2"):
            run = box.run_sync(f"await tools['<checkpoint>']({arguments})")
            assert run.error is not None
            assert run.error.message == "checkpoint: a checkpoint has a label of 1 to 200 characters and a value"
            assert run.calls == []


class TestArguments:
    @attack("bridge", "twenty thousand arguments")
    @pytest.mark.parametrize(
        ("arguments", "wrong"), [("*range(20_000)", 19_998), ("**{f'k{n}': n for n in range(20_000)}", 20_002)]
    )
    def test_many_arguments_are_counted_not_listed(self, box: Sandbox, arguments: str, wrong: int) -> None:
        run = box.run_sync(f"await tools.add({arguments})")
        assert run.error is not None
        assert run.error.message == f"add: {wrong} of the values are not valid"
        assert len(run.model_dump_json()) < 3000

    @attack("bridge", "one argument given twice")
    def test_by_place_and_by_name(self, box: Sandbox) -> None:
        run = box.run_sync("await tools.add(1, 2, a=3)")
        assert run.error is not None
        assert run.error.message == "add: a: it is given twice"

    @attack("bridge", "arguments deeper than the host reads")
    @pytest.mark.parametrize("value", ["[" * 197 + "]" * 197, '{"a":' * 197 + "1" + "}" * 197, "[" * 9000 + "]" * 9000])
    def test_deep_arguments_fail_at_their_line(self, box: Sandbox, value: str) -> None:
        run = box.run_sync("import json\nvalue = json.loads(text)\nawait tools.echo(value)", {"text": value})
        assert run.error is not None
        assert (run.status, run.error.kind, run.error.line) == ("error", "NotEncodable", 3)
        assert (
            run.error.message
            == "arguments of tools.echo: nested too deeply to be encoded as JSON; about 200 levels are accepted"
        )
        assert run.calls == []

    def test_arguments_as_deep_as_the_host_reads_are_sent(self, box: Sandbox) -> None:
        run = box.run_sync("import json\nawait tools.echo(json.loads(text))", {"text": "[" * 196 + "]" * 196})
        assert audit(run) == [("echo", False, "InvalidArguments: value: it should be text")]

    @attack("bridge", "brackets in a text, to look deep")
    def test_brackets_in_texts_are_not_depth(self, box: Sandbox) -> None:
        assert box.run_sync("await tools.echo(text) == text", {"text": "[{" * 5000 + '"\\"[' * 500}).result is True

    @attack("bridge", "many calls, each below the limit, in one message over it")
    def test_the_message_is_bounded_as_a_whole(self, box: Sandbox) -> None:
        code = (
            "door.exchange('0\\n[[' + ','.join(f'[{n},\"echo\",[\"{\"x\" * 900}\"],{{}}]' for n in range(1, 200)) "
            "+ '],[]]')"
        )
        run = broken(box, code, max_call_bytes=1000)
        lost(run, PROTOCOL)
        assert run.calls == []

    @attack("bridge", "more calls than one message may hold")
    def test_a_message_of_too_many_calls(self, box: Sandbox) -> None:
        run = broken(
            box,
            "door.exchange('0\\n[[' + ','.join(f'[{n},\"add\",[1,2],{{}}]' for n in range(1, 1026)) + '],[]]')",
        )
        lost(run, PROTOCOL)
        assert run.calls == []

    @attack("bridge", "calls past the limit, sent past the guest's own count")
    def test_the_host_counts_the_calls(self) -> None:
        made: list[int] = []

        def note(n: int) -> int:
            made.append(n)
            return n

        with Sandbox([note], Limits(timeout_s=5)) as box:
            code = (
                "door.exchange('0\\n[[' + ','.join(f'[{n},\"note\",[{n}],{{}}]' for n in range(1, 101)) + "
                "'],[]]')\nawait tools.note(7)"
            )
            run = box.run_sync(BREAK_OUT + code, limits={"max_tool_calls": 10})
        assert run.error is not None
        assert (run.status, run.error.message) == ("call_limit", "the run made more tool calls than max_tool_calls=10")
        assert run.usage.tool_calls == 10
        assert set(made) <= set(range(1, 11))

    @attack("bridge", "a call beside one that waits for approval")
    def test_nothing_is_answered_once_a_call_waits(self) -> None:
        paid: list[int] = []

        def pay(amount: int) -> int:
            if amount > 10:
                raise ApprovalRequired("more than ten")
            paid.append(amount)
            return amount

        with Sandbox([pay], Limits(timeout_s=5)) as box:
            code = "try:\n    await tools.pay(100)\nexcept BaseException: pass\nawait tools.pay(1)\n'went on'"
            run = box.run_sync(code)
        assert (run.status, run.result, paid) == ("paused", None, [])
        assert [(one.tool, one.arguments, one.reason) for one in run.pending] == [
            ("pay", {"amount": 100}, "more than ten")
        ]


class TestReentrancy:
    SLY = "import decimal\nclass D(decimal.Decimal):\n    def __str__(self):\n        {inside}\n        return '1'\n"

    @attack("bridge", "a checkpoint made while arguments are being encoded")
    def test_calls_go_out_in_the_order_of_their_numbers(self, box: Sandbox) -> None:
        run = box.run_sync(
            self.SLY.format(inside="checkpoint('inner', 1)") + "[await tools.echo(D(1)), await tools.add(1, 2)]"
        )
        assert (run.status, run.result) == ("completed", ["1", 3]), run.error
        assert audit(run) == [("echo", True, None), ("add", True, None)]

    @attack("bridge", "a call made while a checkpoint's value is being encoded")
    def test_a_checkpoint_within_a_checkpoint(self, box: Sandbox) -> None:
        run = box.run_sync(
            self.SLY.format(inside="checkpoint('inner', 1)")
            + "checkpoint('outer', [D(1), D(2)])\nawait tools.add(1, 2)"
        )
        assert (run.status, run.result) == ("completed", 3), run.error

    @attack("bridge", "the guest's own entry, called from inside")
    def test_a_run_within_the_run_is_only_python(self, box: Sandbox) -> None:
        """It may spoil its own run with that, and nothing else: the host hears one answer."""
        run = broken(box, "runner.run('{}')\n'went on'")
        assert run.error is not None
        assert (run.status, run.error.kind, run.error.message) == ("error", "KeyError", "'marked'")
        assert run.calls == []

    @attack("bridge", "an answer taken before the one who waits for it")
    def test_a_stolen_answer_is_missed_only_in_the_guest(self, box: Sandbox) -> None:
        code = (
            "t = asyncio.ensure_future(tools.echo('mine', delay=0.05))\nawait asyncio.sleep(0.005)\n"
            "print(door.exchange('2\\n').partition('\\n')[2])\nawait t"
        )
        run = broken(box, code, timeout_s=0.5)
        assert (run.status, run.result, run.stdout) == ("timeout", None, '[[1,1,"mine"]]\n')
        assert audit(run) == [("echo", True, None)]

    @attack("bridge", "an answer that the guest gives itself")
    def test_the_audit_is_the_hosts(self, box: Sandbox) -> None:
        code = (
            "t = asyncio.ensure_future(tools.fail('true'))\nawait asyncio.sleep(0)\n"
            "for f, _ in modules['guest.bridge'].bridge.pending.values(): f.set_result('forged')\nr = await t\n"
            "door.exchange('0.2\\n')\nr"
        )
        run = broken(box, code)
        assert run.result == "forged"  # it may believe what it likes
        assert audit(run) == [("fail", False, "ToolError: true")]

    @attack("bridge", "completions that the guest makes up")
    def test_made_up_completions_stay_in_the_guest(self, box: Sandbox) -> None:
        code = "door.exchange = lambda message: '1.0\\n[[1,1,\"forged\"]]'\nawait tools.add(1, 2)"
        run = broken(box, code)
        assert (run.result, run.calls, run.usage.tool_calls) == ("forged", [], 0)


class TestEnd:
    @attack("bridge", "calls after the answer was made")
    def test_a_late_call_is_a_call(self, box: Sandbox) -> None:
        code = (
            "finish = runner._finish\ndef late(*a, **k):\n    text = finish(*a, **k)\n"
            "    door.exchange('-1\\n[[[5,\"add\",[1,2],{}]],[]]')\n    door.write('late')\n    return "
            "text\nrunner._finish = late\n1"
        )
        run = broken(box, code)
        assert (run.status, run.result, run.stdout) == ("completed", 1, "late")
        assert audit(run) == [("add", True, None)]

    @attack("bridge", "calls at the exit of the interpreter")
    def test_a_call_at_exit_is_granted_like_any(self, box: Sandbox) -> None:
        late = "atexit.register(lambda: asyncio.run(tools.{call}))\n"
        run = box.run_sync(f"import atexit, asyncio\n{late.format(call='add(1, 2)')}{late.format(call='no()')}1")
        assert audit(run) == [("no", False, "UnknownTool: there is no such tool"), ("add", True, None)]

    @attack("bridge", "a call from a finalizer")
    def test_a_call_in_a_finalizer_is_granted_like_any(self, box: Sandbox) -> None:
        code = (
            "import asyncio\nclass A:\n    def __del__(self):\n        async def main(): return await tools.add(1, 2)\n"
            "        print(asyncio.run(main()))\na = A()\ndel a\n1"
        )
        run = box.run_sync(code)
        assert (run.status, run.result, run.stdout) == ("completed", 1, "3\n")
        assert audit(run) == [("add", True, None)]

    @attack("bridge", "a call left under way at the end")
    def test_a_call_that_nobody_waits_for_ends_with_the_run(self) -> None:
        ended: list[str] = []

        async def slow() -> None:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        with Sandbox([slow], Limits(timeout_s=5)) as box:
            run = box.run_sync(
                "import asyncio\nt = asyncio.ensure_future(tools.slow())\nfor _ in range(3): await "
                "asyncio.sleep(0.01)\n1"
            )
            assert (run.status, run.result) == ("completed", 1)
            assert [(call.name, call.ok) for call in run.calls] == [("slow", False)]
        assert ended == ["cancelled"]

    @attack("bridge", "an answer of a session's earlier run")
    def test_a_late_answer_is_not_the_next_runs(self, box: Sandbox) -> None:
        with box.session() as session:
            first = session.run_sync(
                "import asyncio\nt = asyncio.ensure_future(tools.echo('first', delay=0.1))\nfor _ in range(3): "
                "await asyncio.sleep(0)\n1"
            )
            assert (first.status, first.result) == ("completed", 1)
            second = session.run_sync("await tools.echo('second', delay=0.3)")
        assert second.result == "second"
        assert audit(second) == [("echo", True, None)]


class TestAnswers:
    def answered(self, box: Sandbox, answer: str, **limits: float) -> Run:
        return broken(box, f"runner._finish = lambda *a, **k: {answer!r}\n1", **limits)

    @attack("bridge", "a size that the result does not have")
    @pytest.mark.parametrize("size", ["-5", "0", "7", "1e3", '"12"', "true", "null", "9" * 300, "[]"])
    @pytest.mark.parametrize("status", ["completed", "result_limit"])
    def test_a_made_up_size(self, box: Sandbox, status: str, size: str) -> None:
        run = self.answered(box, f'{{"status":"{status}","size":{size}}}\0"x"\0')
        lost(run, NOT_AN_ANSWER)
        assert (run.usage.result_bytes, run.files) == (0, {})

    @attack("bridge", "a status that only the host gives")
    @pytest.mark.parametrize(
        "status", ["timeout", "cpu_limit", "call_limit", "fuel_limit", "crashed", "Completed", "completed "]
    )
    def test_a_status_of_the_hosts(self, box: Sandbox, status: str) -> None:
        lost(self.answered(box, f'{{"status":"{status}"}}\0001\0'), NOT_AN_ANSWER)

    @attack("bridge", "values of a failed line that are none, or too many")
    @pytest.mark.parametrize("values", ['"x"', "[1]", "3"])
    def test_values_that_are_none(self, box: Sandbox, values: str) -> None:
        answer = '{"status":"error","error":{"kind":"E","message":"m","values":%s}}\0\0'
        lost(self.answered(box, answer % values), NOT_AN_ANSWER)
        many = {f"{n}{'k' * 900}": "v" * 900 if n else 5 for n in range(20)}
        run = self.answered(box, answer % json.dumps(many))
        assert run.error is not None
        assert [*map(len, run.error.values or {})] == [*map(len, (run.error.values or {}).values())] == [200] * 7

    @attack("bridge", "more parts than an answer has")
    def test_an_answer_of_four_parts(self, box: Sandbox) -> None:
        lost(self.answered(box, '{"status":"completed"}\0001\0[{},[]]\0more'), NOT_AN_ANSWER)

    @attack("bridge", "files that the caller passed to nobody")
    @pytest.mark.parametrize("kept", ['"mine","other"', '"/etc/passwd"', '"mine","mine"', "1", '["mine"]', "long"])
    def test_kept_files_are_those_that_were_passed(self, box: Sandbox, kept: str) -> None:
        answer = (
            "if kept == 'long': kept = '\"\",' * 7_000_000 + '\"\"'\n"
            "runner._finish = lambda *a, **k: '{\"status\":\"completed\"}\\x001\\x00[{},[' + kept + ']]\\x00'\n1"
        )
        run = box.run_sync(BREAK_OUT + answer, {"kept": kept}, files={"mine": b"passed"})
        lost(run, NOT_AN_ANSWER)
        assert run.files == {}
        run = box.run_sync(BREAK_OUT + answer, {"kept": '"mine"'}, files={"mine": b"passed"})
        assert run.files == {"mine": b"passed"}

    @attack("bridge", "more files than a run may have")
    def test_a_thousand_files_and_one(self, box: Sandbox) -> None:
        names = ",".join(f'"{n}":0' for n in range(1001))
        run = self.answered(box, f'{{"status":"completed"}}\x001\x00[{{{names}}},[]]\x00')
        lost(run, NOT_AN_ANSWER)
        assert run.files == {}

    @attack("bridge", "a result that is nearly JSON")
    @pytest.mark.parametrize(
        "result", ['"\\ud800"', "[" * 5000 + "]" * 5000, "{1:2}", "9" * 5000, "'x'", "undefined", ""]
    )
    def test_results_that_can_not_be_read(self, box: Sandbox, result: str) -> None:
        run = self.answered(box, f'{{"status":"completed"}}\0{result}\0')
        assert run.error is not None
        assert (run.status, run.error.kind, run.result) == ("error", "NotEncodable", None)
        assert run.error.message.startswith("result: it can't be read as JSON: ")

    @attack("bridge", "no answer at all")
    @pytest.mark.parametrize("value", ["5", "None", "b'{}'", "[]"])
    def test_an_answer_that_is_no_text(self, box: Sandbox, value: str) -> None:
        run = broken(box, f"runner._finish = lambda *a, **k: {value}\n1")
        lost(run, *PANIC)

    @attack("bridge", "a message that is no text")
    @pytest.mark.parametrize(
        "call", ["exchange(None)", "exchange(5)", "exchange(b'0')", "write(None)", "keep([])", "exchange()"]
    )
    def test_what_is_no_text_does_not_leave_the_guest(self, box: Sandbox, call: str) -> None:
        run = broken(box, f"door.{call}")
        assert run.error is not None
        if call == "exchange()":
            assert (run.status, run.error.kind) == ("error", "TypeError")
        else:
            lost(run, *PANIC)
        assert (run.calls, run.stdout) == ([], "")


@pytest.fixture(autouse=True)
def same_workers(box: Sandbox) -> Iterator[None]:
    """None of it leaves a worker behind that nobody asked for."""
    yield
    assert box.running == []
