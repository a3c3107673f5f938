from datetime import datetime
from zoneinfo import ZoneInfo

meeting = datetime(2024, 7, 1, 15, 0, tzinfo=ZoneInfo("Europe/Paris"))
places = ["America/New_York", "Asia/Kolkata", "UTC"]
result = {place: meeting.astimezone(ZoneInfo(place)).strftime("%H:%M %Z") for place in places}
