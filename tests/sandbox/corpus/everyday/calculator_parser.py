# expect: [7.0, 9.0, 2.0, 70.0]
"""A recursive-descent calculator."""


class Parser:
    def __init__(self, text):
        self.tokens = text.replace("(", " ( ").replace(")", " ) ").split()
        self.position = 0

    def peek(self):
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def take(self):
        token = self.peek()
        self.position += 1
        return token

    def expression(self):
        value = self.term()
        while (op := self.peek()) in ("+", "-"):
            self.take()
            value = value + self.term() if op == "+" else value - self.term()
        return value

    def term(self):
        value = self.factor()
        while (op := self.peek()) in ("*", "/"):
            self.take()
            right = self.factor()
            value = value * right if op == "*" else value / right
        return value

    def factor(self):
        token = self.take()
        if token == "(":
            value = self.expression()
            assert self.take() == ")", "missing )"
            return value
        if token == "-":
            return -self.factor()
        return float(token)


def evaluate(text):
    return Parser(text).expression()


[evaluate("1 + 2 * 3"), evaluate("( 1 + 2 ) * 3"), evaluate("- 4 / ( 2 - 4 )"), evaluate("2 * (3 + 4) * 5")]
