# expect: refused
# line: 8
# kind: PolicyRefusal
def f():
    pass


getattr(f, "__globals__")
