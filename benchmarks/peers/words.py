"""Figures as a person reads them."""

from __future__ import annotations


def shown(value: float | None, unit: str = "") -> str:
    if value is None:
        return "–"
    return f"{value:.0f}{unit}" if abs(value) >= 100 else f"{value:.2g}{unit}"


def score(outcomes: dict[str, str]) -> str:
    if not outcomes:
        return "–"
    return f"{sum(not why for why in outcomes.values())} / {len(outcomes)}"
