"""What programs do every day, done while the image is built.

CPython then keeps the library's code in its fast form, and has the answers that it finds out once and remembers: a
program that does the same is faster, and writes to fewer pages of the snapshot.
"""

import abc
import collections
import collections.abc
import datetime
import decimal
import fractions
import io
import numbers
import os

# What nearly every program does, and little more: each page that it writes to is memory of every guest in the pool.
TOUCH = """
import json
from collections import Counter, defaultdict
from dataclasses import dataclass
class Base:
    size: int = 0
    def __init__(self, name: str) -> None:
        self.name = name
    @property
    def upper(self) -> str:
        return self.name.upper()
class Derived(Base):
    def __init__(self, name: str) -> None:
        super().__init__(name)
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"
@dataclass
class Item:
    name: str
    size: int = 0
def work(items: list[int]) -> dict[str, int]:
    out = {}
    for item in sorted(items, key=lambda i: -i):
        out[f"{item}"] = out.get(str(item), 0) + 1
    return out
groups = defaultdict(list)
for word in "some words of text".split():
    groups[len(word)].append(Derived(word).upper)
try:
    {}["missing"]
except KeyError as error:
    groups[0].append(repr(error))
counts = Counter(len(x) for x in groups.values())
print(f"{1.5:.2f} {Derived('x')} {Item('y')}")
json.loads(json.dumps([work([1, 2, 3]), dict(counts)]))
"""

# Programs of other kinds than `TOUCH`, each of which does what programs of its kind do.
KINDS = (
    """
import re
from enum import Enum, auto
from typing import NamedTuple
class Colour(Enum):
    RED = auto()
    BLUE = "blue"
class Part(NamedTuple):
    colour: Colour
    text: str = ""
found = [Part(Colour.RED, m.group("word")) for m in re.finditer(r"(?P<word>[a-z]+)|\\d+", "some 12 words")]
[part._replace(colour=Colour("blue")).text for part in found] + re.sub(r"\\s+", " ", "a  b").split()
""",
    """
import csv, io, statistics
from dataclasses import asdict, dataclass, field
@dataclass(frozen=True, order=True)
class Row:
    size: int
    name: str
    tags: list[str] = field(default_factory=list, compare=False)
rows = sorted(Row(int(row["size"]), row["name"]) for row in csv.DictReader(io.StringIO("name,size\\na,2\\nb,1\\n")))
out = io.StringIO()
csv.writer(out).writerow([statistics.mean(row.size for row in rows), statistics.median([1, 3])])
[asdict(row) for row in rows]
""",
    """
import json, math
from abc import ABC, abstractmethod
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from functools import lru_cache
class Shape(ABC):
    @abstractmethod
    def area(self) -> float: ...
class Circle(Shape):
    def area(self) -> float:
        return math.pi
@contextmanager
def opened(name):
    yield name
@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
with opened("x") as name:
    day = date.fromisoformat("2024-01-02") + timedelta(days=fib(7))
when = datetime.strptime("2024-01-02", "%Y-%m-%d").strftime("%d %b")
json.loads(json.dumps({"day": day.isoformat(), "when": when, "area": round(Circle().area(), 2)}, indent=2))
""",
    """
import asyncio, heapq
from collections import OrderedDict, deque
from decimal import Decimal
from typing import Generic, Protocol, TypeVar
T = TypeVar("T")
class Sized(Protocol):
    def size(self) -> int: ...
class Stack(Generic[T]):
    def __init__(self) -> None:
        self.items: list[T] = []
    def push(self, item: T) -> None:
        self.items.append(item)
async def later(n: int) -> int:
    await asyncio.sleep(0)
    return n
heap = [3, 1, 2]
heapq.heapify(heap)
stack = Stack[int]()
stack.push(heapq.heappop(heap))
total = sum((Decimal("1.10") * n for n in deque([1, 2], maxlen=3)), Decimal(0))
[str(total), await asyncio.gather(*(later(n) for n in stack.items)), list(OrderedDict(a=1))]
""",
)

# The library, more widely. It forgets the patterns that it has compiled: compiling is what is to be fast.
LIBRARY = """
import abc, asyncio, collections, contextlib, csv, dataclasses, datetime, decimal, enum, functools, hashlib, heapq, io, itertools, json
import math, operator, random, re, sqlite3, statistics, string, textwrap, typing, urllib.parse, uuid
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

re.purge()
tokens = re.compile(r"(?P<number>\\d+(?:\\.\\d*)?)|(?P<name>[A-Za-z_]\\w*)|(?P<sign>[-+*/()])|\\s+|^#.*?$", re.MULTILINE)

class Kind(enum.Enum):
    A = "a"
    B = "b"

class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2

class Pair(typing.NamedTuple):
    left: int
    right: str = ""

class Row(typing.TypedDict):
    name: str

@dataclass
class Item:
    name: str
    price: float = 1.5
    tags: list[str] = field(default_factory=list)

    @property
    def total(self) -> float:
        return round(self.price * len(self.tags), 2)

@dataclass(frozen=True, order=True, slots=True)
class Key:
    rank: int
    name: str = field(compare=False)

class Base:
    def __init__(self, size: int = 3) -> None:
        self.size = size
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size!r})"
    def __len__(self) -> int:
        return self.size
    def __iter__(self):
        yield from range(self.size)

class Derived(Base):
    def __init__(self) -> None:
        super().__init__(2)

@functools.lru_cache
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

@functools.singledispatch
def render(value) -> str:
    return str(value)

@render.register
def _(value: int) -> str:
    return f"{value:>8,}"

@contextlib.contextmanager
def opened(name):
    yield name

class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self) -> float: ...

class Sized(typing.Protocol):
    def __len__(self) -> int: ...

out = []
text = "The quick brown fox, 42 jumps over the lazy dog on 2024-01-02; mail a.b@example.org"
items = [Item("tea", 3.5, ["a"]), Item(name="milk", tags=["b", "c"])]
words = Counter(re.findall(r"[a-z]+", text.lower()))
groups = defaultdict(list)
for word, count in words.most_common():
    groups[len(word)].append(word)
out.append(json.loads(json.dumps({"a": [1, 2.5, None, True], "items": [dataclasses.asdict(i) for i in items]}, indent=2, sort_keys=True)))
out.append(sorted(items, key=operator.attrgetter("price"), reverse=True)[0].total)
out.append([Kind("a"), Level.HIGH > 1, Pair(1)._replace(right="x"), Key(1, "k") < Key(2, "j"), {Key(1, "k")}])
out.append([m.group() for m in re.finditer(r"(\\d{4})-(\\d\\d)-(\\d\\d)", text)])
out.append(re.split(r"[,;]\\s*", text) + [re.sub(r"\\s+", " ", text)])
day = datetime.date.fromisoformat("2024-01-02") + datetime.timedelta(days=40)
out.append([day.isoformat(), day.strftime("%Y-%m-%d"), datetime.datetime(2024, 1, 2, 3, 4).isoformat(), day.weekday()])
for form, written in (("%Y-%m-%d", "2024-01-02"), ("%Y-%m-%d %H:%M:%S", "2024-01-02 03:04:05"), ("%d/%m/%Y", "02/01/2024")):
    out.append(datetime.datetime.strptime(written, form).isoformat())
out.append([statistics.fmean([1, 2.5]), statistics.stdev([1, 2, 4]), statistics.mode([1, 1, 2])])
out.append([m.lastgroup for m in tokens.finditer("x1 + 2.5")] + [render(3), render("x")])
with opened("x") as name, contextlib.closing(sqlite3.connect(":memory:")) as db, db:
    db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
    db.executemany("INSERT INTO t (b) VALUES (?)", [(name,), ("y",)])
    out.append(db.execute("SELECT a, b FROM t ORDER BY b DESC").fetchall())
out.append([decimal.Decimal("1.10") + 2, math.sqrt(16), statistics.mean([1, 2, 3]), statistics.median([3, 1, 2]), fib(15)])
rows = list(csv.DictReader(io.StringIO("name,n\\nx,1\\ny,2\\n")))
target = io.StringIO()
csv.writer(target).writerows([[1, "a,b"], [2, "c"]])
out.append([rows, target.getvalue(), heapq.nsmallest(2, [3, 1, 2])])
out.append([[list(g) for _, g in itertools.groupby("aab", key=str.upper)], list(itertools.chain([1], [2]))])
out.append([list(itertools.islice(itertools.count(1, 2), 3)), list(itertools.product("ab", repeat=2))])
out.append([list(itertools.combinations("abc", 2)), list(itertools.accumulate([1, 2], operator.add, initial=0))])
out.append([list(zip("ab", [1, 2], strict=True)), list(enumerate("ab", start=1)), sum([1.5], start=1), int("ff", base=16)])
out.append([max([], default=0), min(items, key=operator.attrgetter("name")).name, sorted("ba", reverse=True), round(2.675, 2)])
out.append(["a,b".split(",", maxsplit=1), "a b".encode("utf-8").decode(errors="replace"), "x".replace("x", "y", 1), pow(2, 5, 7)])
out.append([str(Derived()), len(Derived()), list(Derived()), isinstance(Derived(), Base)])
out.append([{**{"a": 1}, "b": 2}, [*range(3)], {x % 3 for x in range(9)}])
out.append([hashlib.sha256(b"x").hexdigest(), textwrap.dedent("  a").strip(), string.ascii_letters[:3]])
out.append([urllib.parse.urlencode({"a": 1}), f"{3.14159:.2f} {12:>5} {1234567:,} {0.5:%}"])
queue = deque([1, 2])
queue.appendleft(0)
try:
    {}["missing"]
except (KeyError, ValueError) as error:
    out.append(repr(error))
match {"kind": "a", "size": [1, 2]}:
    case {"kind": "a", "size": [first, *rest]}:
        out.append([first, rest])
with io.StringIO() as file:
    print("x", 1, file=file)
async def later(n):
    await asyncio.sleep(0)
    return n
out.append(await asyncio.gather(*(later(n) for n in range(3))))
print(text.title(), " ".join(sorted(words)), len(out))
len(out)
"""  # noqa: E501


def settle_classes() -> None:
    """Ask which class is which: each answer is kept, and the first question goes through all the subclasses.

    Call it after all imports: `register` makes the answers of before it void.
    """
    values: tuple[object, ...] = (
        None,
        True,
        0,
        0.0,
        0j,
        "",
        b"",
        bytearray(),
        [],
        (),
        {},
        set(),
        frozenset(),
        range(0),
        slice(0),
        int,
        object(),
    )
    functions: tuple[object, ...] = (len, [].append, "".join, settle_classes, lambda: 0)
    views: tuple[object, ...] = ({}.keys(), {}.values(), {}.items(), memoryview(b""))
    iterators: tuple[object, ...] = (
        iter([]),
        iter(()),
        iter(""),
        iter({}),
        iter({}.values()),
        iter({}.items()),
        iter(set()),
        iter(range(0)),
    )
    lazy: tuple[object, ...] = ((x for x in ""), map(str, ()), filter(None, ()), zip(), enumerate(()), reversed([]))
    containers: tuple[object, ...] = (
        collections.Counter(),
        collections.defaultdict(int),
        collections.OrderedDict(),
        collections.deque(),
    )
    library: tuple[object, ...] = (
        decimal.Decimal(0),
        fractions.Fraction(0),
        datetime.datetime.min,
        datetime.date.min,
        datetime.timedelta(),
    )
    files: tuple[object, ...] = (io.StringIO(), io.BytesIO())
    known = {type(value) for value in (*values, *functions, *views, *iterators, *lazy, *containers, *library, *files)}
    asked = [
        kind for module in (collections.abc, numbers) for kind in vars(module).values() if isinstance(kind, abc.ABCMeta)
    ]
    for kind in (*asked, os.PathLike):
        for other in known:
            issubclass(other, kind)
