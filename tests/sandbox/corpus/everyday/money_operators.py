# expect: ["33.00 EUR", "25.0 USD", "Money(3, 'EUR')", "33.00 EUR", "3.00 EUR", "TypeError", [["b", 1], ["a", 2]]]
from functools import reduce
from operator import add, attrgetter, itemgetter


class Money:
    RATES = {"EUR": 1.0, "USD": 1.25}

    def __init__(self, amount, currency="EUR"):
        self.amount, self.currency = amount, currency

    def to(self, currency):
        return Money(self.amount / self.RATES[self.currency] * self.RATES[currency], currency)

    def __add__(self, other):
        if not isinstance(other, Money):
            return NotImplemented
        return Money(self.amount + other.to(self.currency).amount, self.currency)

    def __radd__(self, other):
        return self if other == 0 else NotImplemented

    def __iadd__(self, other):
        self.amount += other.to(self.currency).amount
        return self

    def __lt__(self, other):
        return self.to("EUR").amount < other.to("EUR").amount

    def __hash__(self):
        return hash((self.amount, self.currency))

    def __eq__(self, other):
        return isinstance(other, Money) and (self.amount, self.currency) == (other.amount, other.currency)

    def __format__(self, spec):
        return f"{self.amount:{spec or '.2f'}} {self.currency}"

    def __repr__(self):
        return f"Money({self.amount!r}, {self.currency!r})"


purse = [Money(10), Money(25, "USD"), Money(3)]
total = sum(purse)
wallet = {"cash": Money(1)}
wallet["cash"] += Money(2.5, "USD")
by_amount = sorted(purse, key=attrgetter("amount"))
try:
    Money(1) + 1
except TypeError as error:
    kind = type(error).__name__
pairs = sorted({"b": 1, "a": 2}.items(), key=itemgetter(1))
[f"{total}", f"{max(purse):.1f}", repr(by_amount[0]), f"{reduce(add, purse)}", f"{wallet['cash']}", kind, pairs]
