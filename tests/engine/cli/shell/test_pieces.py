"""Where a piece of code ends."""

from __future__ import annotations

import pytest

from go_ent.engine.cli.commands.shell.pieces import is_open, pieces


@pytest.mark.parametrize(
    "text",
    [
        "for x in y:",
        "for x in y:\n    print(x)",
        "if a:  # why: because",
        "x = (1,",
        "x = {\n  'a': 1,",
        'text = """one',
        "x = 1 + \\",
        "@decorated",
        "@decorated\ndef f():",
        "f('''a''', \"b\", (",
    ],
)
def test_more_is_to_come(text: str) -> None:
    assert is_open(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = 1",
        "for x in y: print(x)",
        "for x in y:\n    print(x)\n",
        "for x in y:\n    print(x)\n    ",
        "'a: b:'",
        "x = '#('  # (",
        "x = 'not closed",
        ")))",
        'text = """one\ntwo: ("""',
        "print('it\\'s (')",
    ],
)
def test_it_is_whole(text: str) -> None:
    assert not is_open(text)


def test_the_lines_of_a_pipe() -> None:
    text = """\
x = 1

def f(n):

    # a comment
    return n
@g
def h():
    pass

if x:
    f(1)
else:
    f(2)
y = [
  1,

  2]
'''a

b'''
%files
for x in y:
    f(x)"""
    assert list(pieces(text.split("\n"))) == [
        "x = 1",
        "def f(n):\n\n    # a comment\n    return n",
        "@g\ndef h():\n    pass\n",
        "if x:\n    f(1)\nelse:\n    f(2)",
        "y = [\n  1,\n\n  2]",
        "'''a\n\nb'''",
        "%files",
        "for x in y:\n    f(x)",
    ]


def test_a_long_text_takes_one_pass() -> None:
    assert len(list(pieces(["for x in y:", *["    f(x)"] * 20_000]))) == 1


class TestScripts:
    @pytest.mark.parametrize(
        "text",
        [
            "function f() {",
            "const x = [1,",
            "const x =",
            "const f = () =>",
            "a &&",
            "`one",
            "`one ${f({",
            "/* why",
            "f('a', /[(]/, (",
            "if (a) {\n  b();\n} else {",
        ],
    )
    def test_more_is_to_come(self, text: str) -> None:
        assert is_open(text, "typescript")

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "x",
            "x++",
            "'{('",
            '"{(" // (',
            "/[{(]/.test(x)",
            "a / b / (c)",
            "`${`{`}` + '`'",
            "for (const x of y) { f(x); }",
            "/* ( */ x",
            ")))",
        ],
    )
    def test_it_is_whole(self, text: str) -> None:
        assert not is_open(text, "javascript")

    def test_a_pipe_is_taken_apart_by_statements(self) -> None:
        lines = ["const a = {", "  b: 1,", "};", "if (a) {", "  f();", "}", "else g();", "a", "  .b", "%files", "x"]
        found = list(pieces(iter(lines), "typescript"))
        assert found == [
            "const a = {\n  b: 1,\n};",
            "if (a) {\n  f();\n}\nelse g();",
            "a\n  .b",
            "%files",
            "x",
        ]
