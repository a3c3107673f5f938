"""Days and months as a calendar in a time zone has them: they begin at local midnight, whatever the clocks do that
night.
"""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from go_ent.composer.errors import ConfigError
from go_ent.dataclass import dataclass


class BudgetWindow(NamedTuple):
    """From `start` up to, but without, `end`; seconds since 1970."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Bounds:
    """The day and the month that a moment is in."""

    day: BudgetWindow
    month: BudgetWindow


def zone(name: str) -> ZoneInfo:
    """A time zone by its name, or `ConfigError`."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, a path, a folder of zones
        raise ConfigError(
            f"budget.timezone: there is no time zone {name[:100]!r}; say UTC, or one like Europe/Berlin"
        ) from None


def bounds(now: float, zone: ZoneInfo) -> Bounds:
    """The day and the month that *now* is in. Windows follow each other without a gap and never overlap."""
    today = datetime.fromtimestamp(
        math.floor(now), zone
    ).date()  # it would round the last microsecond of a day to the next
    day = BudgetWindow(_midnight(today, zone), _midnight(today + timedelta(days=1), zone))
    # Where clocks are put back across midnight, the evening comes twice: the second time belongs to the day that has
    # begun.
    while now >= day.end:
        today += timedelta(days=1)
        day = BudgetWindow(day.end, _midnight(today + timedelta(days=1), zone))
    first = today.replace(day=1)
    following = (first + timedelta(days=32)).replace(day=1)
    return Bounds(day, BudgetWindow(_midnight(first, zone), _midnight(following, zone)))


def _midnight(day: date, zone: ZoneInfo) -> float:
    """When a day begins. A midnight that is skipped is the moment of the change; of two, it is the first."""
    return datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()
