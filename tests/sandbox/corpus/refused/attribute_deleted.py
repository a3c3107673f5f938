# expect: refused
# line: 8
# kind: PolicyRefusal
def f():
    pass


del f.__globals__
