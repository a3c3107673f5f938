"""Plots without a library: bars and lines as SVG text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from benchmarks.measure import Row, amount

OURS, THEIRS, WORSE, AXIS, INK = "#2f6f4f", "#8a94a6", "#b5563c", "#c9d0da", "#1c2330"
COLOURS = (THEIRS, "#b9a06a", OURS, "#4a7fb5", WORSE)
LETTER = 6.7  # how wide one is, about


def text(x: float, y: float, words: str, anchor: str = "start", weight: str = "normal", size: int = 13) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" font-size="{size}">{escape(words)}</text>'


def bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1.5):.1f}" height="{height}" rx="2" fill="{colour}"/>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str = AXIS, dashes: str = "") -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-dasharray="{dashes}"/>'
    )


def picture(width: float, height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
        f'font-family="sans-serif" font-size="13" fill="{INK}">'
    )
    return (
        "\n".join([head, f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>', *parts, "</svg>"]) + "\n"
    )


def ratios(rows: Sequence[Row], title: str) -> str:
    """Every row that has a ratio: how many times the baseline it is, on a scale of powers of ten. A small stroke is its bound."""
    shown = [(row, row.ratio) for row in rows if row.ratio]
    if not shown:
        raise ValueError(f"{title}: there is nothing to plot")
    left = 20 + max(len(row.key) for row, _ in shown) * LETTER
    bounds = [row.must for row, _ in shown if row.must and row.bound_on == "ratio"]
    values = [abs(math.log10(each)) for each in (*(ratio for _, ratio in shown), *bounds)]
    wide, reach, step, top = 420, max(1.0, math.ceil(max(values))), 26, 62
    middle, unit = left + wide / 2, wide / 2 / reach
    height = top + step * len(shown) + 12
    parts = [text(12, 24, title, weight="bold", size=15)]
    for power in range(-int(reach), int(reach) + 1):
        x = middle + power * unit
        label = "the baseline" if power == 0 else f"{10**power:g} ×"
        parts += [line(x, top - 8, x, height - 10), text(x, top - 14, label, anchor="middle", size=11)]
    for number, (row, ratio) in enumerate(shown):
        y, reached = top + number * step, math.log10(ratio) * unit
        good = (ratio <= 1) == (row.better == "lower")
        parts.append(text(left - 10, y + 13, row.key, anchor="end"))
        parts.append(bar(middle + min(reached, 0), y, abs(reached), 16, OURS if good else THEIRS))
        if row.must and row.bound_on == "ratio":
            x = middle + math.log10(row.must) * unit
            parts.append(line(x, y - 3, x, y + 19, WORSE))
        parts.append(text(left + wide + 14, y + 13, f"{amount(ratio)} × {row.baseline_name}", size=12))
    return picture(left + wide + 260, height, parts)


def grouped(title: str, groups: Mapping[str, Mapping[str, float]], unit: str) -> str:
    """Bars in groups, on a scale of powers of ten: for each group the same names, each a colour."""
    names = list(next(iter(groups.values())))
    left, wide, thick, gap, top = 20 + max(len(group) for group in groups) * LETTER, 460, 12, 14, 66
    values = [value for group in groups.values() for value in group.values() if value > 0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    unit_width = wide / max(high - low, 1)
    height = top + len(groups) * (len(names) * thick + gap) + 10
    parts = [text(12, 24, title, weight="bold", size=15)]
    x = left
    for name, colour in zip(names, COLOURS, strict=False):
        parts += [bar(x, 36, 10, 10, colour), text(x + 15, 45, name, size=12)]
        x += 34 + len(name) * LETTER
    for power in range(low, high + 1):
        x = left + (power - low) * unit_width
        parts += [
            line(x, top - 4, x, height - 8),
            text(x + 2, top - 6, f"{10**power:,.0f}" if power >= 0 else f"{10**power:g}", size=10),
        ]
    y = float(top)
    for group, bars in groups.items():
        parts.append(text(left - 10, y + len(names) * thick / 2 + 4, group, anchor="end"))
        for name, colour in zip(names, COLOURS, strict=False):
            width = (math.log10(bars[name]) - low) * unit_width if bars[name] > 0 else 0.0
            parts += [
                bar(left, y, width, thick - 2, colour),
                text(left + width + 5, y + 9, f"{amount(bars[name])} {unit}", size=10),
            ]
            y += thick
        y += gap
    return picture(left + wide + 130, height, parts)


def lines(title: str, series: Mapping[str, Sequence[tuple[float, float]]], across: str, up: str) -> str:
    """Lines through points, both scales in powers of ten."""
    points = [point for each in series.values() for point in each]
    left, wide, tall, top = 70, 460, 240, 60
    spans = []
    for axis in (0, 1):
        found = [math.log10(point[axis]) for point in points]
        low, high = math.floor(min(found)), math.ceil(max(found))
        spans.append((low, max(high, low + 1)))
    (x_low, x_high), (y_low, y_high) = spans
    legend = float(left)

    def place(point: tuple[float, float]) -> tuple[float, float]:
        return (
            left + (math.log10(point[0]) - x_low) / (x_high - x_low) * wide,
            top + tall - (math.log10(point[1]) - y_low) / (y_high - y_low) * tall,
        )

    parts = [
        text(12, 24, title, weight="bold", size=15),
        text(left + wide / 2, top + tall + 40, across, anchor="middle", size=12),
    ]
    parts.append(text(12, top - 8, up, size=12))
    for power in range(x_low, x_high + 1):
        x, _ = place((10.0**power, 10.0**y_low))
        parts += [
            line(x, top, x, top + tall),
            text(x, top + tall + 18, f"{10.0**power:,.0f}", anchor="middle", size=11),
        ]
    for power in range(y_low, y_high + 1):
        _, y = place((10.0**x_low, 10.0**power))
        parts += [line(left, y, left + wide, y), text(left - 8, y + 4, f"{10.0**power:,g}", anchor="end", size=11)]
    for (name, each), colour in zip(series.items(), COLOURS[2:] + COLOURS[:2], strict=False):
        placed = [place(point) for point in each]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in placed]
        parts += [bar(legend, top - 18, 10, 10, colour), text(legend + 15, top - 9, name, size=12)]
        legend += 34 + len(name) * LETTER
    return picture(max(left + wide + 30, legend), top + tall + 56, parts)
