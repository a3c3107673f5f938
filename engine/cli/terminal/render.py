"""Results for a person at a terminal: coloured JSON, records as a table, Markdown rendered, long ones in a pager.

What is shown comes from guests, tools and upstreams. It is plain before it is drawn, and again after: Markdown can
spell a control character (`&#27;`). Nothing of it chooses a parser but Markdown's own, and that is bounded.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from go_ent.engine.cli.terminal.formats import Format, cell, is_figures, show_as
from go_ent.engine.cli.terminal.output import aside, is_rich, plain, say, show, show_json
from go_ent.engine.cli.terminal.tables import console

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

MOST_MARKDOWN = 32 << 10  # characters that are parsed
MOST_COLOURED = 256 << 10  # characters of JSON
MOST_ROWS = 2000
MOST_COLUMNS = 20
LEAST_COLUMN = 8  # cells that a column of a table needs
MARKS = (
    re.compile(r"^#{1,6} \S", re.MULTILINE),
    re.compile(r"^[-*] \S.*\n(?:.*\n)??[-*] \S", re.MULTILINE),
    re.compile(r"\*\*[^*\n]{1,200}\*\*"),
    re.compile(r"\[[^\]\n]{1,200}\]\(https?://"),
    re.compile(r"^[0-9]{1,9}\. \S", re.MULTILINE),
)
RULE = frozenset(" :|-")  # what the line below a table's head is made of


def show_result(value: Any, form: Format | None = None) -> None:
    """Print a result: in a format that was asked for; else pretty on a terminal, and as it is in a pipe."""
    if form is not None:
        show_as(value, form)
    elif not is_rich(sys.stdout):
        show(value) if isinstance(value, str) else show_json(value)
    elif isinstance(value, str):
        text = plain(value)
        _draw(_markdown(text), text) if is_markdown(text) else _page(text)
    else:
        _draw(_table(value) or _json(value))


def is_markdown(text: str) -> bool:
    """Whether a text was written to be rendered: a fence or a table, or two other marks of it."""
    if len(text) > MOST_MARKDOWN or "\n" not in text:
        return False
    lines = text.splitlines()
    if any(line.count("|") > MOST_COLUMNS for line in lines):
        return False
    sure = any(line.startswith("```") or ("---" in line and "|" in line and RULE.issuperset(line)) for line in lines)
    return sure or sum(bool(one.search(text)) for one in MARKS) >= 2


def _draw(what: RenderableType, instead: str = "") -> None:
    """Draw it; *instead*, what can't be drawn is printed."""
    screen = console()
    try:
        drawn = cleaned(screen, what)
    except Exception:  # whatever a parser makes of a stranger's text
        _page(instead)
        return
    _page(drawn)


def cleaned(screen: Console, what: RenderableType) -> str:
    """What is drawn, with its colours, and with nothing else that a terminal would obey."""
    from rich.segment import Segment, Segments

    found = [
        Segment(plain(segment.text), segment.style.update_link(None) if segment.style else None)
        for segment in screen.render(what)
        if not segment.control
    ]
    with screen.capture() as made:
        screen.print(Segments(found), end="", soft_wrap=True)  # what is wider was meant to be
    return made.get().rstrip("\n")


def _page(text: str) -> None:
    """Print a text that may be longer than the screen."""
    from go_ent.engine.cli.terminal.pager import paged

    if not paged(text):
        with aside():
            print(text)


def _markdown(text: str) -> RenderableType:
    from rich.markdown import Markdown, TextElement
    from rich.padding import Padding
    from rich.text import Text

    class Fence(TextElement):
        """Code without colours: they would take a parser that the text chooses."""

        style_name = "markdown.code_block"

        def __rich_console__(self, console: Any, options: Any) -> Any:
            yield Padding(Text(str(self.text).rstrip(), style="cyan"), (0, 2))

    class Plain(Markdown):
        elements = {**Markdown.elements, "fence": Fence, "code_block": Fence}  # noqa: RUF012

    return Plain(text, hyperlinks=False)


def _table(value: Any) -> RenderableType | None:
    """Records as a table, if they are some and fit."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        return None
    if not all(isinstance(one, Mapping) for one in value):
        return None
    from rich import box
    from rich.table import Table
    from rich.text import Text

    head = list(dict.fromkeys(str(name) for one in value[:MOST_ROWS] for name in one))
    nested = any(isinstance(one, Mapping | list) and len(cell(one)) > 80 for row in value[:50] for one in row.values())
    if not head or nested or len(head) > min(MOST_COLUMNS, console().width // LEAST_COLUMN):
        return None
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    rows = [[plain(cell(one[name])) if name in one else "" for name in head] for one in value[:MOST_ROWS]]
    for at, name in enumerate(head):
        right = is_figures(row[at] for row in rows)
        made.add_column(Text(plain(name)), justify="right" if right else "left", overflow="fold")
    for row in rows:
        made.add_row(*map(Text, row))
    if len(value) > MOST_ROWS:
        say(f"the first {MOST_ROWS:,} of {len(value):,} rows: --output json has them all", err=True)
    return made


def _json(value: Any) -> RenderableType:
    from pydantic_core import to_json
    from rich.highlighter import JSONHighlighter
    from rich.text import Text

    text = Text(plain(to_json(value, indent=2, inf_nan_mode="null").decode()), no_wrap=True, overflow="ignore")
    if len(text) <= MOST_COLOURED:
        JSONHighlighter().highlight(text)
    return text
