values = [3, 7, 8, 12, 15, 21, 22, 22, 29, 38, 41]
width = 10
bins = {}
for value in values:
    low = value // width * width
    bins.setdefault((low, low + width), []).append(value)
for (low, high), members in sorted(bins.items()):
    print(f"{low:>3}-{high:<3} {'#' * len(members)}")
result = [{"from": low, "to": high, "count": len(members)} for (low, high), members in sorted(bins.items())]
