# expect: {"north": 8.6, "south": 11.85}
# stdout: "region,total\nnorth,8.60\nsouth,11.85\n"
import csv
import io
from collections import defaultdict

DATA = """region,product,units,price
north,apple,10,0.50
south,apple,7,0.55
north,pear,3,1.20
south,"plum, dried",4,2.00
"""


def load(text):
    for row in csv.DictReader(io.StringIO(text)):
        row["units"] = int(row["units"])
        row["price"] = float(row["price"])
        yield row


totals = defaultdict(float)
for row in load(DATA):
    totals[row["region"]] += row["units"] * row["price"]

out = io.StringIO()
writer = csv.writer(out, lineterminator="\n")
writer.writerow(["region", "total"])
writer.writerows((region, f"{total:.2f}") for region, total in sorted(totals.items()))
print(out.getvalue(), end="")
{region: round(total, 2) for region, total in totals.items()}
