# expect: [true, false, 5, 18, true]
"""Checkpoints of plain data: what pickle writes, it reads again."""
import pickle
from collections import Counter, OrderedDict, deque
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

STATE = {
    "numbers": [1, 2.5, 3 + 4j, Decimal("1.10"), Fraction(1, 3)],
    "containers": [{1, 2}, frozenset("ab"), deque([1, 2], maxlen=5), OrderedDict(a=1), Counter("hello")],
    "times": [date(2024, 2, 29), datetime(2024, 1, 1, 12), timedelta(hours=3)],
    "bytes": [b"raw", bytearray(b"mutable")],
    "ranges": [range(0, 10, 3)],
}


def save(path, state):
    with open(path, "wb") as file:
        pickle.dump(state, file, protocol=pickle.HIGHEST_PROTOCOL)


def load(path):
    with open(path, "rb") as file:
        return pickle.load(file)


save("state.pickle", STATE)
again = load("state.pickle")
[again == STATE, again is STATE, again["containers"][2].maxlen, sum(again["ranges"][0]), Path("state.pickle").stat().st_size > 100]
