# expect: {"account": "Account(owner='Ada', balance=Decimal('100.25'))", "message": "needed 1000, but only 100.25 available", "history": [["deposit", "120.50"], ["withdraw", "20.25"]]}
from dataclasses import dataclass, field
from decimal import Decimal


class InsufficientFunds(Exception):
    def __init__(self, needed, available):
        super().__init__(f"needed {needed}, but only {available} available")
        self.needed = needed
        self.available = available


@dataclass
class Account:
    owner: str
    balance: Decimal = Decimal("0.00")
    _history: list[tuple[str, Decimal]] = field(default_factory=list, repr=False)

    def deposit(self, amount):
        amount = Decimal(amount)
        if amount <= 0:
            raise ValueError("deposits must be positive")
        self.balance += amount
        self._history.append(("deposit", amount))

    def withdraw(self, amount):
        amount = Decimal(amount)
        if amount > self.balance:
            raise InsufficientFunds(amount, self.balance)
        self.balance -= amount
        self._history.append(("withdraw", amount))


account = Account("Ada")
account.deposit("120.50")
account.withdraw("20.25")
try:
    account.withdraw("1000")
except InsufficientFunds as error:
    message = str(error)
{"account": repr(account), "message": message, "history": account._history}
