"""The tasks, and how a model that makes no mistake does each of them: by direct calls, in code, and with a composed tool.

A script yields the calls of a turn and is sent what they answered; what it returns is the answer. Where a person or a model
has to read and judge, the script stands for that: it takes what it needs out of the text that it was sent, and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.codemode.talk import Call
from benchmarks.codemode.world import CHAIN, REPORT, SEND_TO, World

Script = Generator[Sequence[Call], list[str], Any]
PIECE = 18_000  # characters of a long text that are read at once: a run hands over 20,000 as JSON
GOES_ON = re.compile(r"went on with that in (N-\d\d)")


DEFINED = [""]  # what the model was told of the tools of the server it talks to


class Wrong(Exception):
    """A way did not come to the right answer, or not in the way that it says."""


@dataclass(frozen=True)
class Scenario:
    """One task with everything that the three ways need for it."""

    name: str
    tools: int
    result: str  # how large the results are
    task: str
    expected: Callable[[World], Any]
    direct: Callable[[], Script]
    searches: tuple[str, ...]
    needs: tuple[str, ...]  # the tools that code calls
    code: str
    tool: str  # the source of the composed tool
    arguments: dict[str, Any]
    sends: Callable[[World], list[tuple[str, str]]] = lambda world: []
    by_code: Callable[[Scenario, str], Script] | None = None  # where one piece of code is not enough
    by_tool: Callable[[Scenario], Script] | None = None
    read: Callable[[str], Any] = json.loads  # the composed tool's answer, as the model reads it

    @property
    def composed(self) -> str:
        """The composed tool's name."""
        found = re.search(r'^# name = "(\w+)"', self.tool, re.M)
        assert found is not None
        return found[1]


def in_code(scenario: Scenario, mark: str) -> Script:
    """Search, if that is needed, and run the code. *mark* makes it code that was never run before."""
    yield from looked_up(scenario)
    (ran,) = yield [Call("code_execute", {"code": scenario.code + mark})]
    return result_of(ran)


def looked_up(scenario: Scenario) -> Generator[Sequence[Call], list[str], None]:
    """Search for the tools, unless the definitions have them all."""
    if all(f"{name}(" in DEFINED[0] for name in scenario.needs):
        return
    found = yield [Call("tool_search", {"words": words, "limit": 5}) for words in scenario.searches]
    if missing := [name for name in scenario.needs if not any(name in text for text in found)]:
        raise Wrong(f"{scenario.name}: the search did not find {', '.join(missing)}")


def result_of(ran: str) -> Any:
    """The result in an answer of `code_execute`. Every task asks for less than a table, which would stand below."""
    said = json.loads(ran)
    if said["status"] != "completed":
        raise Wrong(ran)
    return said["result"]


def by_composed(scenario: Scenario) -> Script:
    (said,) = yield [Call(scenario.composed, scenario.arguments)]
    return scenario.read(said)


def tool(name: str, body: str) -> str:
    return f'# /// tool\n# name = "{name}"\n# ///\n{body}'


# -- one small call


def ask_order() -> Script:
    (order,) = yield [Call("get_order", {"order_id": "O-1007"})]
    return json.loads(order)["state"]


ORDER_CODE = '(await tools.desk.get_order(order_id="O-1007"))["state"]'
ORDER_TOOL = tool(
    "order_state",
    'async def order_state(order_id: str) -> str:\n    """The state of an order."""\n'
    '    return (await tools.desk.get_order(order_id=order_id))["state"]\n',
)


def one_call(name: str, tools: int) -> Scenario:
    return Scenario(
        name,
        tools,
        "0.1 KB",
        "What is the state of order O-1007? Answer with the state alone.",
        lambda world: next(order.state for order in world.orders if order.id == "O-1007"),
        ask_order,
        ("get one order by id",),
        ("desk.get_order",),
        ORDER_CODE,
        ORDER_TOOL,
        {"order_id": "O-1007"},
        read=str,
    )


# -- two tools, the second with what the first said


def newest(world: World) -> str:
    return max(world.of("C-017"), key=lambda order: (order.date, order.id)).id


def ask_newest(email: str) -> Script:
    (customer,) = yield [Call("find_customer", {"email": email})]
    (orders,) = yield [Call("list_orders", {"customer_id": json.loads(customer)["id"]})]
    return max(json.loads(orders), key=lambda order: (order["date"], order["id"]))["id"]


def two_tools(email: str) -> Scenario:
    code = (
        f'customer = await tools.desk.find_customer(email="{email}")\n'
        'orders = await tools.desk.list_orders(customer_id=customer["id"])\n'
        'max(orders, key=lambda order: (order["date"], order["id"]))["id"]'
    )
    body = (
        'async def newest_order(email: str) -> str:\n    """The id of the newest order of the customer with an e-mail address."""\n'
        "    customer = await tools.desk.find_customer(email=email)\n"
        '    orders = await tools.desk.list_orders(customer_id=customer["id"])\n'
        '    return max(orders, key=lambda order: (order["date"], order["id"]))["id"]\n'
    )
    return Scenario(
        "two tools",
        10,
        "1 KB",
        f"Which is the newest order of {email}? Answer with its id alone.",
        newest,
        lambda: ask_newest(email),
        ("find a customer by e-mail, list the orders of a customer",),
        ("desk.find_customer", "desk.list_orders"),
        code,
        tool("newest_order", body),
        {"email": email},
        read=str,
    )


# -- a text that has to be read whole


def digest(text: str) -> str:
    """Stands for what a reader makes of a text: it is right only if every letter was read."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def read_direct() -> Script:
    (text,) = yield [Call("read_report", {"name": REPORT})]
    return digest(text)


def read_in_code(scenario: Scenario, mark: str) -> Script:
    """The first piece says how long the text is; the others are asked for at once."""
    yield from looked_up(scenario)
    (first,) = yield [Call("code_execute", {"code": f"{scenario.code}{mark}"})]
    size, text = result_of(first)
    pieces = [(start, start + PIECE) for start in range(PIECE, size, PIECE)]
    more = [f'text = await tools.desk.read_report(name="{REPORT}")\ntext[{start}:{end}]' for start, end in pieces]
    rest = yield [Call("code_execute", {"code": code + mark}) for code in more]
    return digest(text + "".join(map(result_of, rest)))


def read_by_tool(scenario: Scenario) -> Script:
    (first,) = yield [Call(scenario.composed, {"name": REPORT, "part": 1})]
    parts, text = json.loads(first)["parts"], json.loads(first)["text"]
    rest = yield [Call(scenario.composed, {"name": REPORT, "part": part}) for part in range(2, parts + 1)]
    return digest(text + "".join(json.loads(said)["text"] for said in rest))


READ_WHOLE = Scenario(
    "a text to be read whole",
    10,
    "100 KB",
    f"Read the report {REPORT} from its beginning to its end, and say what you make of it.",
    lambda world: digest(world.report),
    read_direct,
    ("read a written report",),
    ("desk.read_report",),
    f'text = await tools.desk.read_report(name="{REPORT}")\n[len(text), text[:{PIECE}]]',
    tool(
        "report_part",
        "from typing import TypedDict\n\n\nclass Part(TypedDict):\n    parts: int\n    text: str\n\n\n"
        'async def report_part(name: str, part: int = 1) -> Part:\n    """A written report, in parts: the first is 1."""\n'
        "    text = await tools.desk.read_report(name=name)\n"
        f'    return {{"parts": -(-len(text) // {PIECE}), "text": text[(part - 1) * {PIECE} : part * {PIECE}]}}\n',
    ),
    {},
    by_code=read_in_code,
    by_tool=read_by_tool,
)


# -- each step needs a reader


def follow(read: Callable[[str], Call], text_of: Callable[[str], str]) -> Script:
    seen = [CHAIN[0]]
    while True:
        (said,) = yield [read(seen[-1])]
        found = GOES_ON.search(text_of(said))
        if found is None:
            return seen
        seen.append(found[1])


def follow_in_code(scenario: Scenario, mark: str) -> Script:
    yield from looked_up(scenario)

    def read(note: str) -> Call:
        return Call("code_execute", {"code": f'(await tools.desk.get_note(note_id="{note}"))["text"]{mark}'})

    return (yield from follow(read, result_of))


FOLLOW = Scenario(
    "each step needs a reader",
    10,
    "1 KB",
    f"Read the note {CHAIN[0]}. It says, in its author's own words, where the matter went on. Follow it to the end; list the notes.",
    lambda world: list(CHAIN),
    lambda: follow(lambda note: Call("get_note", {"note_id": note}), lambda said: str(json.loads(said)["text"])),
    ("read an internal note",),
    ("desk.get_note",),
    '(await tools.desk.get_note(note_id="N-11"))["text"]',
    tool(
        "note_text",
        'async def note_text(note_id: str) -> str:\n    """The text of an internal note."""\n'
        '    return (await tools.desk.get_note(note_id=note_id))["text"]\n',
    ),
    {},
    by_code=follow_in_code,
    by_tool=lambda scenario: follow(lambda note: Call(scenario.composed, {"note_id": note}), str),
)


# -- the same for twenty customers


def best_three(world: World) -> Any:
    totals = [
        (customer.id, sum(order.total for order in world.of(customer.id))) for customer in world.within("north")[:20]
    ]
    return [[customer, round(total, 2)] for customer, total in sorted(totals, key=lambda pair: -pair[1])[:3]]


def ask_best() -> Script:
    (customers,) = yield [Call("list_customers", {"region": "north", "limit": 20})]
    ids = [customer["id"] for customer in json.loads(customers)]
    lists = yield [Call("list_orders", {"customer_id": each}) for each in ids]
    totals = [
        (each, sum(order["total"] for order in json.loads(orders))) for each, orders in zip(ids, lists, strict=True)
    ]
    return [[customer, round(total, 2)] for customer, total in sorted(totals, key=lambda pair: -pair[1])[:3]]


BEST_BODY = (
    "customers = await tools.desk.list_customers(region={region}, limit=20)\n"
    'lists = await asyncio.gather(*(tools.desk.list_orders(customer_id=each["id"]) for each in customers))\n'
    'totals = [[each["id"], round(sum(order["total"] for order in orders), 2)] for each, orders in zip(customers, lists)]\n'
)
BEST_LAST = "sorted(totals, key=lambda pair: -pair[1])[:3]"


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.rstrip("\n").split("\n"))


TWENTY = Scenario(
    "the same for twenty",
    100,
    "20 × 1 KB",
    "Of the first 20 customers in the north, which three have ordered most in all? Answer with ids and totals.",
    best_three,
    ask_best,
    ("list customers of a region", "list all orders of a customer"),
    ("desk.list_customers", "desk.list_orders"),
    "import asyncio\n" + BEST_BODY.format(region='"north"') + BEST_LAST,
    tool(
        "best_customers",
        'import asyncio\n\n\nasync def best_customers(region: str) -> list[list[str | float]]:\n    """The three customers of a region who ordered most."""\n'
        + indented(BEST_BODY.format(region="region") + f"return {BEST_LAST}"),
    ),
    {"region": "north"},
)


# -- one export, counted


def by_state(orders: Sequence[Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for order in orders:
        found[order["state"]] = found.get(order["state"], 0) + 1
    return dict(sorted(found.items()))


def ask_states() -> Script:
    (orders,) = yield [Call("export_orders", {"year": 2025})]
    return by_state(json.loads(orders))


COUNTED = Scenario(
    "one export, counted",
    10,
    "100 KB",
    "How many orders of 2025 are in each state?",
    lambda world: by_state([order.model_dump() for order in world.orders]),
    ask_states,
    ("export all orders of a year",),
    ("desk.export_orders",),
    'from collections import Counter\norders = await tools.desk.export_orders(year=2025)\ndict(sorted(Counter(o["state"] for o in orders).items()))',
    tool(
        "order_states",
        "from collections import Counter\n\n\nasync def order_states(year: int) -> dict[str, int]:\n"
        '    """How many orders of a year are in each state."""\n'
        "    orders = await tools.desk.export_orders(year=year)\n"
        '    return dict(sorted(Counter(order["state"] for order in orders).items()))\n',
    ),
    {"year": 2025},
)


# -- two exports, joined


def joined(orders: Sequence[Any], tickets: Sequence[Any]) -> list[list[Any]]:
    """The five customers with most minutes of support for what is overdue, and the minutes."""
    overdue = {order["customer_id"] for order in orders if order["state"] == "overdue"}
    minutes: dict[str, int] = {}
    for ticket in tickets:
        if ticket["customer_id"] in overdue:
            minutes[ticket["customer_id"]] = minutes.get(ticket["customer_id"], 0) + ticket["minutes"]
    return [list(pair) for pair in sorted(minutes.items(), key=lambda pair: (-pair[1], pair[0]))[:5]]


def ask_joined() -> Script:
    orders, tickets = yield [Call("export_orders", {"year": 2025}), Call("export_tickets", {"year": 2025})]
    return joined(json.loads(orders), json.loads(tickets))


JOIN_BODY = (
    "orders, tickets = await asyncio.gather(tools.desk.export_orders(year={year}), tools.desk.export_tickets(year={year}))\n"
    'overdue = {{order["customer_id"] for order in orders if order["state"] == "overdue"}}\n'
    "minutes = Counter()\n"
    "for ticket in tickets:\n"
    '    if ticket["customer_id"] in overdue:\n'
    '        minutes[ticket["customer_id"]] += ticket["minutes"]\n'
)
JOIN_LAST = "[list(pair) for pair in sorted(minutes.items(), key=lambda pair: (-pair[1], pair[0]))[:5]]"
JOIN_IMPORTS = "import asyncio\nfrom collections import Counter\n"


def join(name: str, tools: int, composed: str) -> Scenario:
    return Scenario(
        name,
        tools,
        "2 × 100 KB",
        "Which five customers with an overdue order took the most minutes of support in 2025? Answer with ids and minutes.",
        lambda world: joined(
            [order.model_dump() for order in world.orders], [ticket.model_dump() for ticket in world.tickets]
        ),
        ask_joined,
        ("export all orders of a year", "export support tickets"),
        ("desk.export_orders", "desk.export_tickets"),
        JOIN_IMPORTS + JOIN_BODY.format(year=2025) + JOIN_LAST,
        tool(
            composed,
            f"{JOIN_IMPORTS}\n\nasync def {composed}(year: int) -> list[list[str | int]]:\n"
            '    """The five customers with an overdue order who took the most minutes of support in a year."""\n'
            + indented(JOIN_BODY.format(year="year") + f"return {JOIN_LAST}"),
        ),
        {"year": 2025},
    )


# -- look, decide by a rule, and act


def late(world: World) -> list[tuple[str, float]]:
    found = []
    for customer in world.within("west")[:10]:
        owed = round(sum(order.total for order in world.of(customer.id) if order.state == "overdue"), 2)
        if owed > 0:
            found.append((customer.id, owed))
    return found


def reminder(customer: str, owed: float) -> str:
    return f"{customer} owes {owed}"


def ask_late() -> Script:
    (customers,) = yield [Call("list_customers", {"region": "west", "limit": 10})]
    ids = [customer["id"] for customer in json.loads(customers)]
    lists = yield [Call("list_orders", {"customer_id": each}) for each in ids]
    owing = []
    for customer, orders in zip(ids, lists, strict=True):
        owed = round(sum(order["total"] for order in json.loads(orders) if order["state"] == "overdue"), 2)
        if owed > 0:
            owing.append((customer, owed))
    yield [Call("send_message", {"channel": SEND_TO, "text": reminder(*each)}) for each in owing]
    return len(owing)


LATE_BODY = (
    "customers = await tools.desk.list_customers(region={region}, limit=10)\n"
    'lists = await asyncio.gather(*(tools.desk.list_orders(customer_id=each["id"]) for each in customers))\n'
    "told = 0\n"
    "for each, orders in zip(customers, lists):\n"
    '    owed = round(sum(order["total"] for order in orders if order["state"] == "overdue"), 2)\n'
    "    if owed > 0:\n"
    f'        await tools.desk.send_message(channel="{SEND_TO}", text=f"{{{{each[\'id\']}}}} owes {{{{owed}}}}")\n'
    "        told += 1\n"
)

REMIND = Scenario(
    "look at ten, write about some",
    1000,
    "10 × 1 KB",
    f"Tell the channel {SEND_TO} of each of the first 10 customers in the west with overdue orders, as '<id> owes <sum>'. How many?",
    lambda world: len(late(world)),
    ask_late,
    ("list customers of a region", "list all orders of a customer", "send a message to a channel"),
    ("desk.list_customers", "desk.list_orders", "desk.send_message"),
    "import asyncio\n" + LATE_BODY.format(region='"west"') + "told",
    tool(
        "remind_late",
        'import asyncio\n\n\nasync def remind_late(region: str) -> int:\n    """Tell collections of the customers of a region who are late; how many."""\n'
        + indented(LATE_BODY.format(region="region") + "return told"),
    ),
    {"region": "west"},
    sends=lambda world: [(SEND_TO, reminder(*each)) for each in late(world)],
)


def scenarios(world: World) -> list[Scenario]:
    """All of them, from those where direct calls are at their best to those where they are not."""
    email = next(customer.email for customer in world.customers if customer.id == "C-017")
    return [
        one_call("one small call", 10),
        two_tools(email),
        FOLLOW,
        READ_WHOLE,
        COUNTED,
        TWENTY,
        join("two exports, joined", 100, "late_and_loud"),
        one_call("one small call of many tools", 1000),
        REMIND,
        join("two exports of many tools", 1000, "late_and_loud"),
    ]
