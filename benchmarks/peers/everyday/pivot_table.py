rows = [
    {"month": "jan", "kind": "rent", "amount": 900},
    {"month": "jan", "kind": "food", "amount": 310},
    {"month": "feb", "kind": "rent", "amount": 900},
    {"month": "feb", "kind": "food", "amount": 280},
    {"month": "feb", "kind": "food", "amount": 25},
]
months = list(dict.fromkeys(row["month"] for row in rows))
kinds = sorted({row["kind"] for row in rows})
table = {month: dict.fromkeys(kinds, 0) for month in months}
for row in rows:
    table[row["month"]][row["kind"]] += row["amount"]
lines = [f"{'':6}" + "".join(f"{kind:>8}" for kind in kinds)]
lines += [f"{month:6}" + "".join(f"{table[month][kind]:>8}" for kind in kinds) for month in months]
result = "\n".join(lines)
