records = [
    {"email": "Ann@Example.com ", "visits": 3},
    {"email": "bob@example.com", "visits": 1},
    {"email": "ann@example.com", "visits": 4},
    {"email": "", "visits": 9},
]
seen = {}
rejected = []
for record in records:
    key = record["email"].strip().lower()
    if not key:
        rejected.append(record)
        continue
    if key in seen:
        seen[key]["visits"] += record["visits"]
    else:
        seen[key] = {"email": key, "visits": record["visits"]}
result = {"kept": list(seen.values()), "rejected": len(rejected)}
