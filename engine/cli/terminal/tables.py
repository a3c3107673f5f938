"""Tables and trees: drawn on a terminal, within its width; plain and aligned in a pipe, where nothing is cut."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, TextIO

from go_ent.dataclass import dataclass
from go_ent.engine.cli.terminal.output import STYLES, Style, aside, has_colours, is_rich, is_utf8, plain, say, short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.tree import Tree

GAP = 2
GUIDE = 4  # cells of a tree's lines
STEPS_DOWN = ("failed", "error", "interrupted")  # why is told whole
# Rich's own have colours for a dark background alone. Magenta can be read on both; cyan and yellow on a dark one.
THEME = {
    "markdown.code": "magenta",
    "json.key": "bold blue",
    "json.str": "green",
    "json.number": "none",
    "json.null": "dim",
    "json.bool_true": "magenta",
    "json.bool_false": "magenta",
}
LEAST = 20  # characters that the last column keeps before others make way for it


def console(stream: TextIO | None = None) -> Console:
    """Stdout or another stream, for rich: nothing of a text is taken for markup, and a width that was given is kept."""
    stream = sys.stdout if stream is None else stream
    from rich.console import Console
    from rich.theme import Theme

    return Console(
        theme=Theme(THEME),
        file=stream,
        force_terminal=is_rich(stream),
        color_system="auto" if has_colours(stream) else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


def table(
    rows: Sequence[Sequence[str]], head: Sequence[str], *, right: Sequence[str] = (), spare: Sequence[str] = ()
) -> None:
    """Rows under their heads. Numbers are at the *right*; *spare* columns are left out, the first of them first, if it
    is narrow.

    Only the last column is ever cut: an id stays whole, so that it can be copied.
    """
    cells = [[short(cell) for cell in row] for row in rows]
    if is_rich(sys.stdout):
        _draw(cells, list(head), set(right), list(spare))
        return
    lines = [list(head), *cells]
    widths = [max(len(line[index]) for line in lines) for index in range(len(head))]
    for line in lines:
        padded = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for cell, width, name in zip(line, widths, head, strict=True)
        ]
        say("  ".join(padded).rstrip())


def _draw(rows: list[list[str]], head: list[str], right: set[str], spare: list[str]) -> None:
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    screen = console()
    widths = {name: max([cell_len(name), *(cell_len(row[at]) for row in rows)]) for at, name in enumerate(head)}
    shown = list(head)
    while spare and sum(widths[name] + GAP for name in shown[:-1]) + min(LEAST, widths[shown[-1]]) > screen.width:
        shown.remove(spare.pop(0))
    drawn = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name in shown:
        drawn.add_column(
            Text(name), justify="right" if name in right else "left", no_wrap=name != shown[-1], overflow="fold"
        )
    left = max(1, screen.width - sum(widths[name] + GAP for name in shown[:-1]))
    for row in rows:
        cells = []
        for at, name in enumerate(head):
            if name in shown:
                text = fitted(row[at], left) if name == shown[-1] and name not in right else row[at]
                cells.append(Text(text, style=STYLES.get(row[at], "")))
        drawn.add_row(*cells)
    with aside():
        screen.print(drawn)


def fitted(text: str, width: int) -> str:
    """Text in so many cells of a terminal, with dots where it was cut."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    dots = "…" if is_utf8(sys.stdout) else "..."
    return set_cell_size(text, max(0, width - len(dots))).rstrip() + dots


def hanging(text: str, indent: int, *, err: bool = False) -> str:
    """Text that begins *indent* cells to the right: on a terminal its further lines do so too, and no word is cut. A
    pipe has one line.
    """
    stream = sys.stderr if err else sys.stdout
    if not is_rich(stream):
        return text
    import textwrap

    width = max(LEAST, console(stream).width - indent)
    lines = textwrap.wrap(plain(text), width, break_long_words=False, break_on_hyphens=False)
    return f"\n{' ' * indent}".join(lines)


@dataclass(slots=True)
class Branch:
    """A line of a tree, and what is below it."""

    text: str
    status: str = ""  # the word of it that has a colour
    detail: str = ""  # what it came to: on a terminal cut to the line, or below it if it is why something failed
    children: list[Branch] = field(default_factory=list)


def show_tree(branches: Sequence[Branch]) -> None:
    """A tree: with its lines on a terminal, by its indentation elsewhere."""
    if not is_rich(sys.stdout):
        for branch in branches:
            _indent(branch, 1)
        return
    from rich.padding import Padding
    from rich.tree import Tree

    screen = console()
    with aside():
        for branch in branches:
            screen.print(Padding(_grown(branch, Tree, screen.width - GAP), (0, 0, 0, GAP)))


def _indent(branch: Branch, depth: int) -> None:
    say(f"{'  ' * depth}{branch.text}{f'  {branch.detail}' if branch.detail else ''}")
    for child in branch.children:
        _indent(child, depth + 1)


def _grown(branch: Branch, make: type[Tree], width: int) -> Tree:
    from rich.cells import cell_len
    from rich.text import Text

    line = plain(branch.text)
    whole = f"{line}  {plain(branch.detail)}" if branch.detail else line
    below = branch.status in STEPS_DOWN and cell_len(whole) > width
    text = Text(line if below else fitted(whole, width) if branch.detail else whole)
    style: Style | None = STYLES.get(branch.status)
    if style is not None:
        text.highlight_words([branch.status], style)
    made = make(text, guide_style="dim")
    children = [Branch(branch.detail), *branch.children] if below else branch.children
    made.children = [_grown(child, make, width - GUIDE) for child in children]
    return made
