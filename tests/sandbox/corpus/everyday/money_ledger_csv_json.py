# expect: {"months": {"2024-01": {"food": -1230, "salary": 200000}, "2024-02": {"food": -870}}, "problems": ["line 5: could not convert string to float: 'oops'"]}
"""Read transactions from a CSV file, write a JSON summary next to it."""
import csv
import json
from datetime import date
from pathlib import Path

Path("ledger.csv").write_text("date,account,amount\n2024-01-05,food,-12.30\n2024-01-09,salary,2000\n2024-02-01,food,-8.7\n2024-02-03,rent,oops\n")


def read(path):
    with open(path, newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            try:
                yield date.fromisoformat(row["date"]), row["account"], round(float(row["amount"]) * 100)
            except ValueError as error:
                problems.append(f"line {number}: {error}")


problems = []
summary = {}
for day, account, cents in read("ledger.csv"):
    month = summary.setdefault(f"{day:%Y-%m}", {})
    month[account] = month.get(account, 0) + cents

with open("summary.json", "w") as file:
    json.dump({"months": summary, "problems": problems}, file, indent=2, sort_keys=True)

with open("summary.json") as file:
    text = file.read()
assert text.count("\n") == 13, text
json.loads(text)
