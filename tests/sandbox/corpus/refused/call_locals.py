# expect: refused
# line: 6
# kind: PolicyRefusal
def report(a, b):
    c = a + b
    return "{a} + {b} = {c}".format(**locals())


report(1, 2)
