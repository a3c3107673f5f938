class InsufficientFunds(Exception):
    def __init__(self, needed, available):
        super().__init__(f"{needed} needed, {available} available")
        self.missing = needed - available


class Account:
    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance
        self.history = []

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("a deposit must be positive")
        self.balance += amount
        self.history.append(("deposit", amount))

    def withdraw(self, amount):
        if amount > self.balance:
            raise InsufficientFunds(amount, self.balance)
        self.balance -= amount
        self.history.append(("withdraw", amount))


account = Account("Ann", 50)
account.deposit(25)
account.withdraw(60)
errors = []
for action in (lambda: account.withdraw(100), lambda: account.deposit(-1)):
    try:
        action()
    except InsufficientFunds as error:
        errors.append([str(error), error.missing])
    except ValueError as error:
        errors.append(str(error))
result = [account.balance, account.history, errors]
