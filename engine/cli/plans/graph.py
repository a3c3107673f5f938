"""A graph of tasks: as a tree on a terminal, as Mermaid text, as an SVG picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from go_ent.dataclass import dataclass
from go_ent.engine.cli.terminal.output import short
from go_ent.engine.cli.terminal.tables import Branch, show_tree
from go_ent.engine.strategies.layout import layers, places

WIDTH, HEIGHT, GAP_X, GAP_Y, EDGE = 200, 44, 60, 16, 20  # of the picture
MOST_TITLE = 26  # characters in a box


@dataclass(frozen=True, slots=True)
class Node:
    """A task: its id, what it does, and where the tasks stand that it needs."""

    id: str
    title: str
    needs: tuple[int, ...]


def draw_tree(nodes: Sequence[Node]) -> None:
    """Each task below the one that it waits for the longest; what else it needs is said beside it."""
    level = layers([node.needs for node in nodes])
    branches: list[Branch] = []
    tops: list[Branch] = []
    for node in nodes:
        branches.append(Branch(f"{short(node.id)}  {short(node.title)[:80]}"))
    for node, branch in zip(nodes, branches, strict=True):
        if not node.needs:
            tops.append(branch)
            continue
        above = max(node.needs, key=lambda need: level[need])
        others = [short(nodes[need].id) for need in node.needs if need != above]
        branch.text += f"  (also after {', '.join(others)})" if others else ""
        branches[above].children.append(branch)
    show_tree(tops)


def mermaid(nodes: Sequence[Node]) -> str:
    """The graph as Mermaid text. Ids and titles are made harmless: they are a stranger's."""
    lines = ["graph LR"]
    for at, node in enumerate(nodes):
        text = escape(f"{short(node.id)}: {short(node.title)[:60]}", quote=True).replace("&#x27;", "'")
        lines.append(f'  t{at}["{text}"]')
        lines += [f"  t{need} --> t{at}" for need in node.needs]
    return "\n".join(lines)


def svg(nodes: Sequence[Node]) -> str:
    """The graph as a picture: one column for each level."""
    where = places([node.needs for node in nodes])
    corners = [(EDGE + column * (WIDTH + GAP_X), EDGE + row * (HEIGHT + GAP_Y)) for column, row in where]
    width = 2 * EDGE + (max((column for column, _ in where), default=0) + 1) * (WIDTH + GAP_X) - GAP_X
    height = 2 * EDGE + (max((row for _, row in where), default=0) + 1) * (HEIGHT + GAP_Y) - GAP_Y
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<defs><marker id="end" markerWidth="8" markerHeight="8" refX="8" refY="4" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#888"/></marker></defs>',
    ]
    for node, (x, y) in zip(nodes, corners, strict=True):
        for need in node.needs:
            left, top = corners[need][0] + WIDTH, corners[need][1] + HEIGHT // 2
            end = y + HEIGHT // 2
            bend = f"C{left + GAP_X // 2},{top} {x - GAP_X // 2},{end} {x},{end}"
            parts.append(f'<path d="M{left},{top} {bend}" fill="none" stroke="#888" marker-end="url(#end)"/>')
    for node, (x, y) in zip(nodes, corners, strict=True):
        title = short(node.title)
        title = title if len(title) <= MOST_TITLE else f"{title[: MOST_TITLE - 1]}…"
        parts += [
            f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#f4f6fa" stroke="#667"/>',
            f'<text x="{x + 10}" y="{y + 18}" font-size="13" font-weight="bold">{escape(short(node.id)[:24])}</text>',
            f'<text x="{x + 10}" y="{y + 35}" font-size="11" fill="#555">{escape(title)}</text>',
        ]
    return "\n".join([*parts, "</svg>"])
