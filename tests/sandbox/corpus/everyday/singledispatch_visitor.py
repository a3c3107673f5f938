# expect: ["[int 1, <str>, [int 2]]", 9, "Call is not allowed", 42, "u3", "left1", {"a": [1, 2]}]
import ast
from functools import partial, partialmethod, singledispatch, singledispatchmethod
from operator import add, mul, sub


@singledispatch
def to_text(value):
    return f"<{type(value).__name__}>"


@to_text.register
def _(value: int):
    return f"int {value}"


@to_text.register(list)
def _(value):
    return "[" + ", ".join(map(to_text, value)) + "]"


class Evaluator(ast.NodeVisitor):
    OPS = {ast.Add: add, ast.Sub: sub, ast.Mult: mul}

    def visit_Expression(self, node):
        return self.visit(node.body)

    def visit_BinOp(self, node):
        return self.OPS[type(node.op)](self.visit(node.left), self.visit(node.right))

    def visit_Constant(self, node):
        return node.value

    def generic_visit(self, node):
        raise ValueError(f"{type(node).__name__} is not allowed")


class Robot:
    def move(self, direction, steps=1):
        return f"{direction}{steps}"

    up = partialmethod(move, "u")

    @singledispatchmethod
    def do(self, command):
        return None

    @do.register
    def _(self, command: str):
        return self.move(command)


double = partial(mul, 2)
value = Evaluator().visit(ast.parse("2 * (3 + 4) - 5", mode="eval"))
try:
    Evaluator().visit(ast.parse("f(1)", mode="eval"))
except ValueError as error:
    problem = str(error)
[to_text([1, "a", [2]]), value, problem, double(21), Robot().up(steps=3), Robot().do("left"), ast.literal_eval("{'a': (1, 2)}")]
