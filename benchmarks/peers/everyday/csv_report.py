import csv
import io
from collections import defaultdict

DATA = """region,product,units,price
north,apple,10,0.50
south,apple,7,0.55
north,pear,3,1.20
south,"plum, dried",4,2.00
"""
totals = defaultdict(float)
for row in csv.DictReader(io.StringIO(DATA)):
    totals[row["region"]] += int(row["units"]) * float(row["price"])
out = io.StringIO()
writer = csv.writer(out, lineterminator="\n")
writer.writerow(["region", "total"])
writer.writerows((region, f"{total:.2f}") for region, total in sorted(totals.items()))
result = out.getvalue()
