"""The sources that the benchmark runs: ordinary programs of about forty lines, with classes and imports."""

INVENTORY = """\
import json
import math
from collections import Counter, defaultdict
from datetime import date


class Item:
    def __init__(self, name: str, price: float, tags: list[str]) -> None:
        self.name = name
        self.price = price
        self.tags = tags

    def total(self, quantity: int) -> float:
        return round(self.price * quantity, 2)


class Basket:
    def __init__(self) -> None:
        self._lines: dict[str, int] = defaultdict(int)
        self.items: dict[str, Item] = {}

    def add(self, item: Item, quantity: int = 1) -> None:
        self.items[item.name] = item
        self._lines[item.name] += quantity

    @property
    def total(self) -> float:
        return sum(self.items[name].total(count) for name, count in self._lines.items())


basket = Basket()
for index, (name, price) in enumerate([("tea", 3.5), ("coffee", 4.25), ("milk", 1.1)]):
    basket.add(Item(name, price, tags=[name[0]]), index + 1)
tags = Counter(tag for item in basket.items.values() for tag in item.tags)
text = json.dumps({"total": basket.total, "day": date(2024, 1, 2).isoformat()})
summary = {"text": text, "tags": dict(tags.most_common(2)), "root": math.sqrt(16)}
print(f"total {basket.total:.2f}")
summary
"""

TOKENS = """\
import re
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    NUMBER = "number"
    NAME = "name"
    SIGN = "sign"


class Token(NamedTuple):
    kind: Kind
    text: str
    at: int


PATTERN = re.compile(r"(?P<number>\\d+)|(?P<name>[a-z]+)|(?P<sign>[-+*/()])|\\s+")


def tokens(text):
    for match in PATTERN.finditer(text):
        if match.lastgroup:
            yield Token(Kind(match.lastgroup), match.group(), match.start())


class Parser:
    def __init__(self, text, names):
        self.items = list(tokens(text))
        self.names = names
        self.at = 0

    def take(self):
        self.at += 1
        return self.items[self.at - 1]

    def sum(self):
        value = self.atom()
        while self.at < len(self.items) and self.items[self.at].text in "+-":
            sign = self.take().text
            value = value + self.atom() if sign == "+" else value - self.atom()
        return value

    def atom(self):
        token = self.take()
        return int(token.text) if token.kind is Kind.NUMBER else self.names[token.text]


Parser("12 + x - 3 + y", {"x": 5, "y": 8}).sum()
"""

RECORDS = '''\
import csv
import io
import statistics
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import attrgetter

DATA = """team,name,points
red,ann,10
blue,bob,7
red,cid,4
blue,dee,12
"""


@dataclass(order=True)
class Player:
    points: int
    name: str
    team: str

    @classmethod
    def parse(cls, row: dict[str, str]) -> "Player":
        return cls(int(row["points"]), row["name"], row["team"])


def load(text: str) -> list[Player]:
    return [Player.parse(row) for row in csv.DictReader(io.StringIO(text))]


def summarise(players: list[Player]) -> dict[str, dict[str, float]]:
    result = {}
    for team, members in groupby(sorted(players, key=attrgetter("team")), key=attrgetter("team")):
        points = [member.points for member in members]
        result[team] = {"mean": statistics.fmean(points), "best": max(points)}
    return result


players = load(DATA)
best = max(players)
{"teams": summarise(players), "best": asdict(best)}
'''

PROGRAMS = {"inventory": INVENTORY, "tokens": TOKENS, "records": RECORDS}

FIB = "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nresult = fib(24)\n"
JSON = (
    "import json\nd = {'a': [1, 2, 3, {'b': 'text', 'c': None}], 'x': 1.5, 's': 'hello world' * 3}\n"
    "for _ in range(1000): json.loads(json.dumps(d))\nresult = 1\n"
)
LOOP = "def f():\n    x = 0\n    for i in range(1000000): x += i\n    return x\nresult = f()\n"
CPU = {"fib(24)": FIB, "1,000 json round trips": JSON, "a 1e6 integer loop": LOOP}
