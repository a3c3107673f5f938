sales = [("north", 120), ("south", 80), ("north", 45), ("east", 60), ("south", 15)]
totals = {}
for region, amount in sales:
    totals[region] = totals.get(region, 0) + amount
best = max(totals, key=lambda region: totals[region])
result = {"totals": totals, "best": best, "share": round(totals[best] / sum(totals.values()), 3)}
