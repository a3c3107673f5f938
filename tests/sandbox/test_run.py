"""What a run takes and gives back."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from typing import Any

import pytest
from pydantic_core import to_jsonable_python

from go_ent.sandbox import Run, Sandbox


class TestValue:
    @pytest.mark.parametrize(
        ("code", "value"),
        [
            ("1+1", 2),
            ("x = 3", None),
            ("x = 3\nx", 3),
            ("", None),
            ("# nothing but a comment", None),
            ("'ä€😀'", "ä€😀"),
            ("[1, 2.5, None, True, {'a': (1, 2)}]", [1, 2.5, None, True, {"a": [1, 2]}]),
            ("return 5", 5),
            ("for i in range(10):\n    if i == 3:\n        return i\nelse:\n    return -1", 3),
            ("x: int = 4\nif x > 3:\n    return {'x': x}\n'not reached'", {"x": 4}),
            ("if False:\n    return 1\n'last expression'", "last expression"),
            ("def f():\n    global y\n    y = 2\nf()\nreturn y", 2),
            ("import asyncio\nawait asyncio.sleep(0)\n7", 7),
            ("async def f():\n    return 8\nawait f()", 8),
            ("import asyncio\nasync def main():\n    await asyncio.sleep(0)\n    return 9\nasyncio.run(main())", 9),
            ("if __name__ == '__main__':\n    result = __name__\nresult", "__main__"),
            ("range(3)", [0, 1, 2]),
            ("(n * n for n in range(3))", [0, 1, 4]),
            ("{3: 'a', None: 'b', (1, 2): 'c'}", {"3": "a", "None": "b", "1,2": "c"}),
            ("import sys\nsys.exit(0)", None),
        ],
    )
    def test_last_expression_or_return(self, box: Sandbox, code: str, value: object) -> None:
        run = box.run_sync(code)
        assert run.error is None
        assert run.status == "completed"
        assert run.result == value

    def test_encodes_like_pydantic(self, box: Sandbox) -> None:
        """The same source on the host, through pydantic itself, is the specification."""
        source = (
            "import dataclasses, datetime, decimal, enum, uuid\n"
            "@dataclasses.dataclass\n"
            "class Point:\n    x: int\n    tags: set\n"
            "class Color(enum.Enum):\n    RED = 'red'\n"
            "class Level(enum.IntEnum):\n    LOW = 1\n"
            "value = {'dataclass': Point(1, {2}), 'datetime': datetime.datetime(2024, 1, 2, 3, 4, 5, 678),"
            " 'aware': datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc), 'date': datetime.date(2024, 1, 2),"
            " 'time': datetime.time(1, 2, 3), 'delta': datetime.timedelta(days=1, hours=2, seconds=3),"
            " 'small': datetime.timedelta(microseconds=1500), 'negative': datetime.timedelta(days=-1, seconds=5),"
            " 'decimal': decimal.Decimal('1.50'), 'set': {5}, 'frozen': frozenset([6]), 'tuple': (1, 'a'), "
            "'bytes': b'abc',"
            " 'enum': Color.RED, 'int_enum': Level.LOW, 'uuid': uuid.UUID(int=7), 'complex': 1 + 2j}\n"
        )
        scope: dict[str, Any] = {"__name__": "specification"}
        exec(compile(source, "specification", "exec", dont_inherit=True), scope)
        run = box.run_sync(f"{source}value")
        assert run.status == "completed", run.error
        assert run.result == to_jsonable_python(scope["value"])

    @pytest.mark.parametrize(
        ("code", "path", "kind"),
        [
            ("{'a': [1, print]}", "result['a'][1]", "builtin_function_or_method"),
            ("class Thing: pass\n[Thing()]", "result[0]", "Thing"),
            ("x = []\nx.append(x)\nx", "result[0]", "list"),
            ("{object(): 1}", "result", "object"),
            ("'\\ud800'", "result", "surrogate"),
            ("{'a': {'\\ud800': 1}}", "result['a']", "surrogate"),
            ("{('a', '\\udfff'): 1}", "result", "surrogate"),
        ],
    )
    def test_value_that_cannot_be_encoded_is_named(self, box: Sandbox, code: str, path: str, kind: str) -> None:
        run = box.run_sync(code)
        assert run.status == "error"
        assert run.error is not None
        assert run.error.kind == "NotEncodable"
        assert run.error.message.startswith(f"{path}:")
        assert kind in run.error.message

    def test_run_is_json_serialisable(self, box: Sandbox) -> None:
        run = box.run_sync("print('hi')\nopen('a.bin', 'wb').write(b'\\xff')\nfloat('nan')")
        again = Run.model_validate_json(run.model_dump_json())
        assert again.stdout == "hi\n"
        assert again.files == {"a.bin": b"\xff"}
        assert json.loads(run.model_dump_json())["status"] == "completed"


class TestInputs:
    def test_inputs_are_variables(self, box: Sandbox) -> None:
        assert box.run_sync("name * n", {"name": "ab", "n": 2}).result == "abab"

    def test_pydantic_types_are_accepted(self, box: Sandbox) -> None:
        @dataclasses.dataclass
        class Point:
            x: int

        class Color(enum.Enum):
            RED = "red"

        inputs = {
            "p": Point(1),
            "c": Color.RED,
            "d": decimal.Decimal("1.5"),
            "t": datetime.date(2024, 1, 2),
            "u": uuid.UUID(int=1),
        }
        assert box.run_sync("[p, c, d, t, u]", inputs).result == [
            {"x": 1},
            "red",
            "1.5",
            "2024-01-02",
            "00000000-0000-0000-0000-000000000001",
        ]

    @pytest.mark.parametrize("name", ["tools", "__builtins__", "not a name", "", "1x", "ToolError"])
    def test_bad_names_are_refused(self, box: Sandbox, name: str) -> None:
        run = box.run_sync("1", {name: 1})
        assert run.status == "error"
        assert run.error is not None
        assert run.error.kind == "InputError"
        assert repr(name) in run.error.message

    def test_inputs_that_cannot_be_encoded(self, box: Sandbox) -> None:
        cyclic: list[Any] = []
        cyclic.append(cyclic)
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        for value in (cyclic, object(), deep, "\ud800"):
            run = box.run_sync("1", {"x": value})
            assert run.status == "error"
            assert run.error is not None
            assert run.error.kind == "InputError"
        assert box.run_sync("1").result == 1


class TestOutput:
    def test_print_is_captured(self, box: Sandbox) -> None:
        run = box.run_sync(
            "import sys, logging\nprint('a', 1)\nsys.stdout.write('b')\nprint('c', "
            "file=sys.stderr)\nlogging.warning('d')"
        )
        assert run.stdout == "a 1\nbc\nWARNING:root:d\n"
        assert run.usage.stdout_bytes == len(run.stdout)

    def test_redirected_output_is_not(self, box: Sandbox) -> None:
        code = (
            "import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as out:\n    "
            "print('x')\nout.getvalue()"
        )
        run = box.run_sync(code)
        assert (run.stdout, run.result) == ("", "x\n")

    def test_overlong_output_is_cut_and_still_a_success(self, box: Sandbox) -> None:
        run = box.run_sync("for i in range(100000): print('x' * 99)\n'done'", limits={"max_stdout_bytes": 1000})
        assert run.status == "completed"
        assert run.result == "done"
        assert run.stdout_truncated
        assert run.stdout.startswith("x" * 99)
        assert run.stdout.endswith("[output cut: more than 1000 bytes were printed]\n")
        assert len(run.stdout) < 1100

    def test_output_cut_in_the_middle_of_a_character(self, box: Sandbox) -> None:
        run = box.run_sync("print('é' * 100)", limits={"max_stdout_bytes": 11})
        assert run.status == "completed"
        assert run.stdout.startswith("é" * 5)

    def test_output_of_a_stopped_run_is_kept(self, box: Sandbox) -> None:
        run = box.run_sync("print('before')\nwhile True: pass", limits={"timeout_s": 0.3})
        assert (run.status, run.stdout) == ("timeout", "before\n")


class TestFiles:
    def test_read_write_and_get_back(self, box: Sandbox) -> None:
        code = (
            "import csv, pathlib, os\n"
            "rows = list(csv.reader(open('data.csv')))\n"
            "os.makedirs('out/deep')\n"
            "pathlib.Path('out/deep/sum.txt').write_text(str(sum(int(r[1]) for r in rows)))\n"
            "with open('data.bin', 'ab') as f: f.write(b'\\x01')\n"
            "sorted(os.listdir('.'))"
        )
        files = {"data.csv": b"a,1\nb,2\n", "data.bin": b"\x00", "gone.txt": b""}
        run = box.run_sync(code + "\nos.remove('gone.txt')", files=files)
        assert run.status == "completed", run.error
        assert run.files == {"data.csv": b"a,1\nb,2\n", "data.bin": b"\x00\x01", "out/deep/sum.txt": b"3"}

    def test_files_do_not_outlive_their_run(self, box: Sandbox) -> None:
        box.run_sync("open('a', 'w').write('x')")
        run = box.run_sync("import os\nos.path.exists('a')")
        assert run.result is False
        assert run.files == {}

    @pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "", ".", "a/..", "a\x00b", "a//b"])
    def test_names_outside_the_folder_are_refused(self, box: Sandbox, name: str) -> None:
        run = box.run_sync("1", files={name: b""})
        assert run.status == "error"
        assert run.error is not None
        assert run.error.kind == "FileError"

    def test_max_file_bytes(self, box: Sandbox) -> None:
        run = box.run_sync("open('a', 'w').write('x' * 2000)", limits={"max_file_bytes": 1000})
        assert run.status == "error"
        assert run.error is not None
        assert run.error.kind == "OSError"
        assert "max_file_bytes" in run.error.message
        run = box.run_sync("1", files={"a": b"x" * 2000}, limits={"max_file_bytes": 1000})
        assert run.error is not None
        assert "max_file_bytes=1000" in run.error.message

    def test_too_many_files(self, box: Sandbox) -> None:
        run = box.run_sync("for i in range(2000): open(str(i), 'w').close()")
        assert run.status == "error"
        assert run.error is not None
        assert "1000 files" in run.error.message


class TestError:
    def test_says_where_and_shows_the_line(self, box: Sandbox) -> None:
        run = box.run_sync("def f(x):\n    return 1 / x\n\nf(0)")
        assert run.status == "error"
        assert run.error is not None
        assert (run.error.kind, run.error.message) == ("ZeroDivisionError", "division by zero")
        assert (run.error.line, run.error.column, run.error.source_line) == (2, 12, "    return 1 / x")
        assert run.error.traceback == (
            "Traceback (most recent call last):\n"
            '  File "code.py", line 4, in <module>\n    f(0)\n'
            '  File "code.py", line 2, in f\n    return 1 / x\n'
            "ZeroDivisionError: division by zero"
        )

    @pytest.mark.parametrize(
        ("code", "values"),
        [
            ("def share(total, rows):\n    return total / len(rows)\nshare(12, [])", {"total": "12", "rows": "[]"}),
            (
                "r = {'a': [1, (2, [3])], 'b': {4}, 'c': None}\nr['d']",
                {"r": "{'a': [1, <tuple of 2>], 'b': {4}, 'c': None}"},
            ),
            (
                "t, n, m = 'ab' * 200, 2 ** 3000, [*range(9)]\nt[n], m",
                {
                    "t": f"'{'ab' * 59}a… [3 more characters]",
                    "n": "<a number of 3001 bits>",
                    "m": "[0, 1, 2, 3, 4, …]",
                },
            ),
            ("import json\nclass A: ...\na = A()\njson, A, tools, len, a.x", {"a": "<A>"}),
            ("n = 1\n1 +", None),
            ("raise ValueError('n')", None),
        ],
    )
    def test_says_what_the_names_in_the_line_stood_for(
        self, box: Sandbox, code: str, values: dict[str, str] | None
    ) -> None:
        run = box.run_sync(code)
        assert run.error is not None
        assert run.error.values == values

    def test_nothing_of_theirs_runs_to_show_a_value(self, box: Sandbox) -> None:
        run = box.run_sync(
            "ran = []\n"
            "class Sly(dict):\n"
            "    def sly(self, *_): ran.append(1); print('ran'); raise SystemExit\n"
            "    __repr__ = __str__ = __iter__ = __len__ = keys = items = __hash__ = __eq__ = sly\n"
            "    __class__ = property(sly)\n"
            "class Key:\n"
            "    def __hash__(self): ran.append(1) if ran is not None and len(ran) else None; return 1\n"
            "s, d = Sly(), {Key(): Sly()}\n"
            "[s, d, ran][9]"
        )
        assert run.error is not None
        assert run.error.values == {"s": "<Sly>", "d": "{<Key>: <Sly>}", "ran": "[]"}
        assert run.stdout == ""

    def test_syntax_error(self, box: Sandbox) -> None:
        run = box.run_sync("x = 1\ny = (")
        assert run.error is not None
        assert (run.status, run.error.kind, run.error.line) == ("error", "SyntaxError", 2)
        assert run.error.source_line == "y = ("

    @pytest.mark.parametrize(
        ("code", "hint"),
        [
            ("lenght = 1\nlength", "did you mean lenght?"),
            ("add(1, 2)", "did you mean tools.add?"),
            ("pritn(1)", "did you mean print?"),
            ("'abc'.uper()", "did you mean .upper?"),
            ("await tools.ad(a=1, b=2)", "did you mean tools.add? available: tools.add, tools.blow_up"),
            ("await tools.add(a=1)", "check the names and types of the arguments"),
            ("x = tools.add(a=1, b=2)\nx + 1", "a tool call must be awaited: write `await tools.<name>(…)`"),
            ("import jsonn", "did you mean json?"),
            ("import requests", "the Python standard library can be imported"),
            ("import socket", "there is no network in the sandbox; call a tool instead"),
            ("import sys\nsys.argvv", "did you mean argv?"),
            ("import asyncio\nawait asyncio.sleep(0)\nasyncio.run(asyncio.sleep(0))", "write `await main()` instead"),
        ],
    )
    def test_hints(self, box: Sandbox, code: str, hint: str) -> None:
        run = box.run_sync(code)
        assert run.error is not None
        assert run.error.hint is not None
        assert hint in run.error.hint

    def test_exit_code_is_an_error(self, box: Sandbox) -> None:
        run = box.run_sync("raise SystemExit(3)")
        assert run.error is not None
        assert (run.status, run.error.kind) == ("error", "SystemExit")

    def test_waiting_for_nothing_is_found_at_once(self, box: Sandbox) -> None:
        run = box.run_sync("import asyncio\nawait asyncio.Event().wait()")
        assert run.error is not None
        assert (run.status, run.error.kind) == ("error", "Deadlock")


class TestImage:
    def test_run_names_its_image(self, box: Sandbox) -> None:
        assert box.run_sync("1").image == box.image.digest


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("x = 1\nx + 1", 2),
        ("x = [\n1,\n2]\nx", [1, 2]),
        ("{\n    'a': 1,\n}", {"a": 1}),
        ("print(\n)\n[\n1\n]", [1]),
        ("x = '''\nabc\n'''\nx", "\nabc\n"),
        ("x = '''\n1\n'''", None),
        ("x = (\n2\n)", None),
        ("x = 1 + \\\n2", None),
        ("x = 1\nx == 1", True),
        ("'''a\nb'''", "a\nb"),
        ("f'''\n{12}'''", "\n12"),
        ("x = 1; x", 1),
        ("x = 3\nx  # end\n# more\n\n", 3),
        ("x = 8\r\nx\r\n", 8),
        ("if True:\n    x = 5\nelse:\n    x = 6\nx", 5),
        ("if False:\n    x = 5\nelse:\n    6", None),
        ("[y := 9]\ny", 9),
        ("\n\n10", 10),
        ("(lambda: 7)(\n)", 7),
        ("11 if\\\nTrue else 0", 11),
        ("x = 1\nx = 2 if x else 3", None),
        ("def f():\n    return 4\n\nf(\n)\n", 4),
        ("import asyncio\nasync def f(): return 4\nt = asyncio.create_task(f())\nawait t", 4),
        ("import asyncio\nasync def f(): return 4\nx = await f()\nasyncio.get_running_loop() and x", 4),
        ("from __future__ import annotations\nx: int = 3\nx", 3),
    ],
)
def test_the_result_is_the_last_expression_wherever_it_begins(box: Sandbox, code: str, result: object) -> None:
    for _ in range(3):  # by then its code comes compiled
        run = box.run_sync(code)
        assert run.status == "completed", run.error
        assert run.result == result


def test_an_error_in_the_last_expression_is_told_with_its_line(box: Sandbox) -> None:
    error = box.run_sync("def f(x):\n    return 1 / x\n\n\nf(\n    0\n)").error
    assert error is not None
    assert (error.kind, error.line) == ("ZeroDivisionError", 2)
    assert "line 5, in <module>\n    f(" in (error.traceback or "")
