"""Markdown and code become HTML that holds nothing of their own but text."""

from __future__ import annotations

import re

import pytest

from go_ent.engine.console.markup import MOST_MARKED, code, code_lines, markdown
from go_ent.engine.console.values import MOST_NODES, shape_of


def test_markdown_is_laid_out() -> None:
    made = markdown("# Title\n\nsome *text* and `code`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nx = 1\n```\n")
    for part in ("<h1>Title</h1>", "<em>text</em>", "<code>code</code>", "<td>1</td>", '<span class="t-mi">1</span>'):
        assert part in made


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](data:text/html,<script>alert(1)</script>)",
        "[x](vbscript:x)",
        "<javascript:alert(1)>",
        "![x](http://elsewhere/pixel.png)",
        "[x]: javascript:alert(1)\n\n[x]",
        '[x](http://a/ "onmouseover=alert(1)")',
        '```"><script>alert(1)</script>\nx\n```',
        '[a](http://x/"onclick=alert(1))',
    ],
)
def test_markdown_has_no_html_pictures_or_programs(text: str) -> None:
    made = str(markdown(text))
    assert set(re.findall(r"<([a-z0-9]+)", made)) <= {"div", "p", "a", "span", "pre", "code"}
    assert not re.search(r"<[^>]*\s(on\w+|src|style)=", made)
    assert not re.search(r'href="(?!https?://)', made)


def test_links_of_the_web_open_apart() -> None:
    made = markdown("[x](https://example.com/a?b=1&c=2)")
    assert (
        '<a href="https://example.com/a?b=1&amp;c=2" rel="noopener noreferrer nofollow" target="_blank">x</a>' in made
    )


def test_code_is_coloured_line_by_line_and_escaped() -> None:
    lines = code_lines('x = "<b>"\n\ny', "python")
    assert len(lines) == 3
    assert "&lt;b&gt;" in lines[0]
    assert "<b>" not in lines[0]
    assert re.sub("<[^>]+>", "", code("a\nb")) == "a\nb"


def test_what_is_too_long_is_plain() -> None:
    assert "<span" not in code("x = 1\n" * MOST_MARKED, "python")
    assert markdown("*x* " * MOST_MARKED).startswith('<pre class="text">')


def test_lists_of_objects_are_tables_and_other_values_trees() -> None:
    table = shape_of([{"a": 1}, {"a": 2, "b": "x"}])
    assert (table.views[0], table.columns, table.rows) == ("table", ["a", "b"], [["1", None], ["2", "x"]])
    assert shape_of({"a": [1]}).views == ("tree", "raw")
    assert shape_of("one line").views == ("text",)
    assert shape_of("# a\n\n- b\n- c").views == ("markdown", "text")
    assert shape_of(None).views == ("raw",)


def test_trees_are_bounded() -> None:
    wide = shape_of([[n] * 50 for n in range(10_000)])
    assert wide.tree is not None
    assert sum(len(one.children) + 1 for one in wide.tree.children) <= MOST_NODES
    deep: object = 1
    for _ in range(500):
        deep = [deep]
    assert shape_of(deep).tree is not None
