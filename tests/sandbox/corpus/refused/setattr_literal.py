# expect: refused
# line: 8
# kind: PolicyRefusal
def f():
    pass


setattr(f, "__code__", (lambda: 2))
