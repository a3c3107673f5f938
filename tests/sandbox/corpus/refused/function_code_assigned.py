# expect: refused
# line: 12
# kind: PolicyRefusal
def f():
    return 1


def g():
    return 2


f.__code__ = g
