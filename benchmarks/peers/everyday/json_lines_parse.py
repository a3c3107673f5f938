import json

LINES = """
{"level": "info", "ms": 12, "path": "/a"}
{"level": "error", "ms": 250, "path": "/b"}
not json at all
{"level": "info", "ms": 31, "path": "/a"}
"""
events, bad = [], 0
for line in LINES.strip().splitlines():
    try:
        events.append(json.loads(line))
    except ValueError:
        bad += 1
slowest = max(events, key=lambda event: event["ms"])
paths = {path: [event["ms"] for event in events if event["path"] == path] for path in ("/a", "/b")}
result = {"bad": bad, "slowest": slowest["path"], "errors": sum(e["level"] == "error" for e in events), "paths": paths}
