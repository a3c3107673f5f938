# expect: refused
# line: 8
# kind: PolicyRefusal
def f():
    pass


f"{f.__globals__}"
