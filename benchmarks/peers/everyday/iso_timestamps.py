from datetime import datetime, timedelta, timezone

stamps = ["2024-03-10T09:30:00+00:00", "2024-03-10T12:00:00+02:00", "2024-03-10T01:15:30-05:00"]
moments = sorted(datetime.fromisoformat(text).astimezone(timezone.utc) for text in stamps)
gaps = [(later - earlier).total_seconds() for earlier, later in zip(moments, moments[1:], strict=False)]
local = moments[0].astimezone(timezone(timedelta(hours=5, minutes=30)))
result = {
    "utc": [moment.isoformat() for moment in moments],
    "gaps": gaps,
    "local": local.strftime("%d %b %Y %H:%M"),
    "parsed": datetime.strptime("07/04/2024 18:05", "%d/%m/%Y %H:%M").isoformat(),
}
