# expect: refused
# line: 5
# kind: PolicyRefusal
class Calculator:
    compute = staticmethod(eval)


Calculator.compute("1 + 1")
