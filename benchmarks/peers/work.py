"""The work that every peer is timed at. It keeps to what all of them can run."""

from __future__ import annotations

ONE_AND_ONE = "result = 1 + 1"

FORTY_LINES = '''\
import json
import re

ORDERS = """
2024-05-01 ann 3 x tea @ 3.50
2024-05-01 bob 1 x coffee @ 4.25
2024-05-02 ann 2 x milk @ 1.10
2024-05-03 cid 5 x tea @ 3.40
broken line
"""
LINE = re.compile("([0-9-]+) ([a-z]+) ([0-9]+) x ([a-z]+) @ ([0-9.]+)")


def parse(text):
    orders = []
    for line in text.strip().split("\\n"):
        match = LINE.match(line)
        if match is None:
            continue
        day, name, count, item, price = match.groups()
        orders.append({"day": day, "name": name, "item": item, "count": int(count), "total": int(count) * float(price)})
    return orders


def totals_by(orders, key):
    totals = {}
    for order in orders:
        totals[order[key]] = round(totals.get(order[key], 0) + order["total"], 2)
    return totals


def best(totals):
    return sorted(totals, key=lambda name: -totals[name])[0]


orders = parse(ORDERS)
by_name = totals_by(orders, "name")
by_item = totals_by(orders, "item")
text = json.dumps({"names": by_name, "items": by_item})
result = {"best": best(by_name), "items": json.loads(text)["items"], "large": [o["name"] for o in orders if o["total"] > 5]}
'''
FORTY_LINES_RESULT = {"best": "cid", "items": {"tea": 27.5, "coffee": 4.25, "milk": 2.2}, "large": ["ann", "cid"]}

FIB = "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nresult = 0\nfor turn in range(count):\n    result = fib(24)\n"
FIB_RESULT = 46368

SLEEPING = "import time\ntime.sleep(0.5)\nresult = 1"
