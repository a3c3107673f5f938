from datetime import date, timedelta

HOLIDAYS = {date(2024, 12, 25), date(2024, 12, 26), date(2025, 1, 1)}


def is_open(day):
    return day.weekday() < 5 and day not in HOLIDAYS


def add_business_days(day, count):
    while count:
        day += timedelta(days=1)
        if is_open(day):
            count -= 1
    return day


due = add_business_days(date(2024, 12, 20), 6)
quarter_ends = [date(2024, month, 1) + timedelta(days=-1) for month in (4, 7, 10)]
result = [str(due), [day.isoformat() for day in quarter_ends], [day.isocalendar()[1] for day in quarter_ends]]
