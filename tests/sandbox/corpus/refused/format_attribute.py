# expect: refused
# line: 8
# kind: PolicyRefusal
def f():
    pass


"{0.__globals__}".format(f)
