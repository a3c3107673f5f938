# expect: refused
# line: 8
# kind: PolicyRefusal
def f():
    pass


f.__globals__["__builtins__"]
