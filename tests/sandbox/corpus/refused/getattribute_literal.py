# expect: refused
# line: 8
# kind: PolicyRefusal
def f():
    pass


f.__getattribute__("__globals__")["__name__"]
