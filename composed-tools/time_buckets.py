# /// tool
# name = "time_buckets"
# ///
# /// examples
# {
#  "inputs": {
#   "records": [{"at": "2024-03-01T09:30:00Z"}, {"at": "2024-03-01T22:00:00Z"}, {"at": "2024-03-03"}],
#   "field": "at"
#  },
#  "result": {
#   "buckets": [
#    {"start": "2024-03-01", "count": 2},
#    {"start": "2024-03-02", "count": 0},
#    {"start": "2024-03-03", "count": 1}
#   ],
#   "without_time": 0
#  }
# }
# {
#  "inputs": {
#   "records": [{"t": {"at": 1709332200}}, {"t": null}, {"t": {"at": "soon"}}],
#   "field": "t.at",
#   "every": "hour",
#   "zone": "Europe/Berlin"
#  },
#  "result": {"buckets": [{"start": "2024-03-01T23:00", "count": 1}], "without_time": 2}
# }
# {"inputs": {"records": [], "field": "at"}, "result": {"buckets": [], "without_time": 0}}
# {
#  "inputs": {"records": [], "field": "at", "zone": "Mars/Olympus"},
#  "error": "there is no time zone Mars/Olympus"
# }
# ///
from collections import Counter
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Literal, TypedDict
from zoneinfo import ZoneInfo

Record = dict[str, Any]
Every = Literal["hour", "day", "week", "month"]
STEPS = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1), "month": timedelta(days=31)}
MOST_BUCKETS = 10_000


class Bucket(TypedDict):
    """How many records are in a stretch of time that begins at `start`, by the zone's clocks."""

    start: str
    count: int


class Buckets(TypedDict):
    """The buckets from the earliest to the latest, and how many records have no time that can be read."""

    buckets: list[Bucket]
    without_time: int


def time_buckets(
    records: list[Record], field: str, every: Every = "day", zone: str = "UTC", fill: bool = True
) -> Buckets:
    """Count records per hour, day, week or month.

    A time is a text such as 2024-03-01T09:30:00Z or 2024-03-01, or seconds since 1970. One that does not say its zone is
    taken to be in the zone that is asked for. Weeks begin on Monday.

    Args:
        records: The records to count.
        field: The field with the time; "commit.date" looks into nested objects.
        every: How long a bucket is.
        zone: The time zone whose clocks and calendar count, such as "Europe/Berlin".
        fill: Whether to list the empty buckets in between, too.
    """
    there = time_zone(zone)
    times = [time for record in records if (time := local_time(value_at(record, field), there)) is not None]
    counts = Counter(bucket_start(time, every) for time in times)
    starts = all_starts(min(counts), max(counts), every) if counts and fill else sorted(counts)
    buckets: list[Bucket] = [{"start": written(start, every), "count": counts[start]} for start in starts]
    return {"buckets": buckets, "without_time": len(records) - len(times)}


def time_zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"there is no time zone {name}") from None


def local_time(value: Any, zone: tzinfo) -> datetime | None:
    """What the zone's clocks show at that time, or None if it is no time."""
    try:
        if isinstance(value, str):
            time = datetime.fromisoformat(value.strip())
        elif isinstance(value, int | float) and not isinstance(value, bool):
            time = datetime.fromtimestamp(value, UTC)
        else:
            return None
        return time.replace(tzinfo=None) if time.tzinfo is None else time.astimezone(zone).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return None


def bucket_start(time: datetime, every: Every) -> datetime:
    hour = time.replace(minute=0, second=0, microsecond=0)
    if every == "hour":
        return hour
    day = hour.replace(hour=0)
    if every == "day":
        return day
    return day - timedelta(days=day.weekday()) if every == "week" else day.replace(day=1)


def all_starts(first: datetime, last: datetime, every: Every) -> list[datetime]:
    """The start of every bucket from the first to the last one."""
    step = STEPS[every]
    if (last - first) / step > MOST_BUCKETS:
        raise ValueError(
            f"there are more than {MOST_BUCKETS} buckets from {first} to {last}: use longer ones, or fill=false"
        )
    starts = [first]
    while starts[-1] < last:
        starts.append(bucket_start(starts[-1] + step, every))
    return starts


def written(start: datetime, every: Every) -> str:
    return start.isoformat(timespec="minutes") if every == "hour" else start.date().isoformat()


def value_at(record: Record, path: str) -> Any:
    """The value of a field, or of one inside nested objects; None if there is none."""
    if path in record:
        return record[path]
    value: Any = record
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
