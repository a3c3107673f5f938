import re
from collections import Counter

LOG = """\
2024-05-01 10:00:01 INFO  [web] GET /index 200 12ms
2024-05-01 10:00:02 ERROR [db] timeout after 3000ms
2024-05-01 10:00:05 WARN  [web] GET /old 404 3ms
broken line
2024-05-01 10:00:09 INFO  [web] POST /save 201 48ms
"""
LINE = re.compile(r"(?P<day>\S+) (?P<time>\S+) (?P<level>\w+)\s+\[(?P<part>\w+)\] (?P<text>.*)")
entries = [match.groupdict() for line in LOG.splitlines() if (match := LINE.match(line))]
times = [int(ms) for ms in re.findall(r"(\d+)ms", LOG)]
requests = [m.group(1, 2) for entry in entries if (m := re.match(r"(GET|POST) (\S+)", entry["text"]))]
result = {"levels": Counter(e["level"] for e in entries), "slowest": max(times), "requests": requests, "parsed": len(entries)}
