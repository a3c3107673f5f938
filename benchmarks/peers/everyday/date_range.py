from datetime import date, timedelta

start, end = date(2024, 2, 26), date(2024, 3, 4)
days = [start + timedelta(days=n) for n in range((end - start).days + 1)]
weekend = [day.isoformat() for day in days if day.weekday() >= 5]
by_month = {}
for day in days:
    by_month.setdefault(day.strftime("%Y-%m"), []).append(day.day)
result = {"days": len(days), "weekend": weekend, "months": by_month, "leap": date(2024, 12, 31).timetuple().tm_yday}
