# expect: [{"192.168.0.1": [["GET", "/index.html", 200], ["GET", "/missing", 404]], "10.0.0.7": [["POST", "/api/items", 201]]}, 2413, "hello-world-it-s-2024", "site at joe, corp at ann", "The Old Man", ["a", "b", "c", "d"], true]
import re
from collections import defaultdict

LOG = """\
192.168.0.1 - [10/Oct/2023:13:55:36] "GET /index.html HTTP/1.1" 200 2326
10.0.0.7 - [10/Oct/2023:13:55:40] "POST /api/items HTTP/1.1" 201 87
garbage line
192.168.0.1 - [10/Oct/2023:13:56:01] "GET /missing HTTP/1.1" 404 -
"""
LINE = re.compile(
    r"""^(?P<ip>\d{1,3}(?:\.\d{1,3}){3})\s-\s
        \[(?P<when>[^\]]+)\]\s
        "(?P<method>[A-Z]+)\s(?P<path>\S+)\sHTTP/[\d.]+"\s
        (?P<status>\d{3})\s(?P<size>\d+|-)$""",
    re.VERBOSE | re.MULTILINE,
)

hits = defaultdict(list)
total = 0
for match in LINE.finditer(LOG):
    entry = match.groupdict()
    hits[entry["ip"]].append((entry["method"], entry["path"], int(entry["status"])))
    total += 0 if entry["size"] == "-" else int(entry["size"])

slug = re.sub(r"[^a-z0-9]+", "-", "Hello, World! It's 2024".lower()).strip("-")
swapped = re.sub(r"(\w+)@(\w+)\.com", r"\2 at \1", "joe@site.com, ann@corp.com")
titled = re.sub(r"\b[a-z]", lambda m: m.group().upper(), "the old man")
fields = re.split(r"\s*[;,]\s*", "a ; b,c;d")
[dict(hits), total, slug, swapped, titled, fields, bool(re.fullmatch(r"(?i)ab+", "ABBB"))]
