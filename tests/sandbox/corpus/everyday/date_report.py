# expect: {"due": ["2024-02-14", "2024-03-13", "2025-01-03"], "names": ["Wednesday 14 February", "Wednesday 13 March", "Friday 03 January"], "quarters": ["2024Q1", "2025Q1"], "local": "2024-03-01T01:30:00+02:00", "parsed": 5285100.0, "leap": true, "days": 28, "month": "February 2024"}
import calendar
from datetime import date, datetime, timedelta, timezone

INVOICES = [("2024-01-15", 30), ("2024-02-28", 14), ("2024-12-24", 10)]


def due_date(issued, days):
    day = date.fromisoformat(issued) + timedelta(days=days)
    while day.weekday() >= 5:
        day += timedelta(days=1)
    return day


def quarter(day):
    return f"{day.year}Q{(day.month - 1) // 3 + 1}"


due = [due_date(*invoice) for invoice in INVOICES]
moment = datetime(2024, 2, 29, 23, 30, tzinfo=timezone.utc)
local = moment.astimezone(timezone(timedelta(hours=2)))
parsed = datetime.strptime("03 Mar 2021 04:05", "%d %b %Y %H:%M")
{
    "due": [day.isoformat() for day in due],
    "names": [day.strftime("%A %d %B") for day in due],
    "quarters": sorted({quarter(day) for day in due}),
    "local": local.isoformat(),
    "parsed": (parsed - datetime(2021, 1, 1)).total_seconds(),
    "leap": calendar.isleap(2024),
    "days": calendar.monthrange(2023, 2)[1],
    "month": calendar.month(2024, 2).splitlines()[0].strip(),
}
