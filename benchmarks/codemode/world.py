"""The upstream server of the scenarios: a shop's back office. Ten tools that the tasks need, and as many beside them as wanted.

All of its data is made from a seed. A tool answers at once, so that what is timed is the way to it and back.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Annotated, Any

from fastmcp import FastMCP
from fastmcp.tools.base import Tool, ToolResult
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

CORE = 10
READS = ToolAnnotations(read_only_hint=True)
SENDS = ToolAnnotations(read_only_hint=False, destructive_hint=False)
REGIONS = ("north", "south", "east", "west")
STATES = ("paid", "open", "overdue", "refunded")
TOPICS = ("delivery", "billing", "returns", "login", "quality")
SEND_TO = "collections"
CHAIN = ("N-11", "N-47", "N-23", "N-35", "N-08")  # each note says in its prose which comes next
REPORT = "annual-review"
REPORT_CHARACTERS = 100_000
NAMES = "amira bram chiara dmitri esra femke goran hanae ines jonas keiko lucia mateus nadia oskar priya quentin rosa sven tara".split()
WORDS = (
    "the of in a and to for with supply demand margin store region quarter customer carrier return season stock price order "
    "service plan team growth cost saving delay quality review target supplier contract warehouse route forecast shelf discount audit"
).split()

NOUNS = (
    "supplier warehouse shipment parcel refund coupon campaign segment invoice payout ledger contract employee shift vacancy meeting room "
    "asset licence device incident deployment release branch build pipeline dashboard alert survey article category variant price_list tax_rate "
    "currency courier route depot return_label gift_card loyalty_card subscription reminder webhook audit_entry permission role_template"
).split()
VERBS = (
    "get list search create update archive restore export import merge assign approve reject close reopen sync publish validate rename copy "
    "tag count"
).split()


class Customer(BaseModel):
    id: str
    name: str
    email: str
    region: str
    tier: str
    since: str
    contact: str


class Order(BaseModel):
    id: str
    customer_id: str
    date: str
    state: str
    total: float
    items: int


class Ticket(BaseModel):
    id: str
    customer_id: str
    topic: str
    opened: str
    minutes: int
    subject: str


class Note(BaseModel):
    id: str
    author: str
    text: str


class Sent(BaseModel):
    id: str
    channel: str


class World:
    """The shop's data, and what was sent."""

    def __init__(self) -> None:
        chance = random.Random(7)
        self.customers = [_customer(chance, number) for number in range(100)]
        self.orders: list[Order] = []
        for customer in self.customers:
            for _ in range(10):
                self.orders.append(_order(chance, len(self.orders), customer.id))
        self.tickets = [_ticket(chance, number, chance.choice(self.customers).id) for number in range(640)]
        self.notes = {
            f"N-{number:02}": Note(id=f"N-{number:02}", author=chance.choice(NAMES), text="") for number in range(60)
        }
        following = dict(zip(CHAIN, (*CHAIN[1:], None), strict=True))
        for note in self.notes.values():
            note.text = _prose(chance, 950, following.get(note.id))
        self.report = "\n".join(_prose(chance, 1_000, None) for _ in range(REPORT_CHARACTERS // 1_001))
        self.sent: list[tuple[str, str]] = []

    def of(self, customer_id: str) -> list[Order]:
        return [order for order in self.orders if order.customer_id == customer_id]

    def within(self, region: str) -> list[Customer]:
        return [customer for customer in self.customers if customer.region == region]


def _customer(chance: random.Random, number: int) -> Customer:
    first, last = chance.choice(NAMES), chance.choice(NAMES)
    return Customer(
        id=f"C-{number:03}",
        name=f"{first.title()} {last.title()}",
        email=f"{first}.{last}.{number}@example.com",
        region=REGIONS[number % 4],
        tier=chance.choice(("basic", "plus", "gold")),
        since=f"20{chance.randint(15, 24)}-{chance.randint(1, 12):02}",
        contact=chance.choice(NAMES).title(),
    )


def _order(chance: random.Random, number: int, customer_id: str) -> Order:
    return Order(
        id=f"O-{1000 + number}",
        customer_id=customer_id,
        date=f"2025-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}",
        state=chance.choices(STATES, (7, 2, 1, 1))[0],
        total=round(chance.uniform(5, 900), 2),
        items=chance.randint(1, 12),
    )


def _ticket(chance: random.Random, number: int, customer_id: str) -> Ticket:
    return Ticket(
        id=f"T-{4000 + number}",
        customer_id=customer_id,
        topic=chance.choice(TOPICS),
        opened=f"2025-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}",
        minutes=chance.randint(3, 400),
        subject=" ".join(chance.choice(WORDS) for _ in range(8)),
    )


def _prose(chance: random.Random, size: int, following: str | None) -> str:
    """Sentences; in the middle, if there is one, what says which note to read next, as a person would write it."""
    text = ""
    while len(text) < size:
        text += " ".join(chance.choice(WORDS) for _ in range(chance.randint(8, 16))).capitalize() + ". "
        if following and len(text) > size // 2:
            text += (
                f"I did not get to the bottom of it; {chance.choice(NAMES).title()} went on with that in {following}. "
            )
            following = None
    return text[:size].rstrip()


def make_upstream(world: World, size: int) -> FastMCP:
    """The server with *size* tools."""
    server: FastMCP = FastMCP("desk")
    for function, hints in _core(world):
        server.tool(function, annotations=hints)
    for tool in others(size - CORE):
        server.add_tool(tool)
    return server


def _core(world: World) -> list[tuple[Callable[..., Any], ToolAnnotations]]:
    def find_customer(email: Annotated[str, Field(description="The e-mail address, whole")]) -> Customer:
        """Find the customer with an e-mail address."""
        return next(customer for customer in world.customers if customer.email == email)

    def get_customer(customer_id: Annotated[str, Field(description="The customer's id, like C-001")]) -> Customer:
        """Everything that is known of one customer."""
        return next(customer for customer in world.customers if customer.id == customer_id)

    def list_customers(
        region: Annotated[str, Field(description="north, south, east or west")],
        limit: Annotated[int, Field(ge=1, le=100, description="How many at the most")] = 20,
    ) -> list[Customer]:
        """List the customers of a region."""
        return world.within(region)[:limit]

    def list_orders(customer_id: Annotated[str, Field(description="The customer's id, like C-001")]) -> list[Order]:
        """List all orders of one customer, with their state and total."""
        return world.of(customer_id)

    def get_order(order_id: Annotated[str, Field(description="The order's id, like O-1000")]) -> Order:
        """Get one order: its state, its total, whose it is."""
        return next(order for order in world.orders if order.id == order_id)

    def export_orders(year: Annotated[int, Field(description="The year, like 2025")]) -> list[Order]:
        """Export all orders of a year, of all customers."""
        return [order for order in world.orders if order.date.startswith(f"{year}-")]

    def export_tickets(year: Annotated[int, Field(description="The year, like 2025")]) -> list[Ticket]:
        """Export all support tickets of a year, with their topic and the minutes they took."""
        return [ticket for ticket in world.tickets if ticket.opened.startswith(f"{year}-")]

    def get_note(note_id: Annotated[str, Field(description="The note's id, like N-01")]) -> Note:
        """Read an internal note: free text by a colleague."""
        return world.notes[note_id]

    def read_report(name: Annotated[str, Field(description="The report's name")]) -> str:
        """Read a written report, the whole text."""
        if name != REPORT:
            raise ValueError(f"there is no report {name}")
        return world.report

    def send_message(
        channel: Annotated[str, Field(description="The channel's name")],
        text: Annotated[str, Field(description="What to say")],
    ) -> Sent:
        """Send a message to a channel of colleagues."""
        world.sent.append((channel, text))
        return Sent(id=f"M-{len(world.sent)}", channel=channel)

    reading = (
        find_customer,
        get_customer,
        list_customers,
        list_orders,
        get_order,
        export_orders,
        export_tickets,
        get_note,
        read_report,
    )
    return [*((function, READS) for function in reading), (send_message, SENDS)]


class OtherTool(Tool):
    """A tool that no task needs. It would answer."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult(structured_content={"items": [arguments], "next": None})


def others(size: int) -> list[OtherTool]:
    """Tools of other parts of the shop, defined as fully as such tools are."""
    chance = random.Random(11)
    pairs = [(verb, noun) for noun in NOUNS for verb in VERBS]
    if size > len(pairs):
        raise ValueError(f"there are only {len(pairs)} other tools")
    return [_other(chance, verb, noun) for verb, noun in pairs[:size]]


def _other(chance: random.Random, verb: str, noun: str) -> OtherTool:
    said = noun.replace("_", " ")
    possible: dict[str, Any] = {
        f"{noun}_id": {"type": "string", "description": f"The id of the {said} to {verb}"},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 100,
            "default": 20,
            "description": "How many results to return at the most",
        },
        "cursor": {"type": "string", "description": "Where to go on, from the answer before"},
        "state": {
            "type": "string",
            "enum": ["active", "closed", "all"],
            "default": "all",
            "description": f"Only {said}s in this state",
        },
        "fields": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Which fields to include in the answer",
        },
        "dry_run": {"type": "boolean", "default": False, "description": "Only say what would be done"},
    }
    chosen = dict(list(possible.items())[:1] + chance.sample(list(possible.items())[1:], 3))
    return OtherTool(
        name=f"{verb}_{noun}",
        description=f"{verb.title()} {said}s of the shop. Use this when somebody asks to {verb} a {said}, and you know its id or state.",
        parameters={"type": "object", "properties": chosen, "required": [f"{noun}_id"]},
        output_schema={
            "type": "object",
            "properties": {"items": {"type": "array"}, "next": {"type": ["string", "null"]}},
        },
        annotations=READS,
    )
