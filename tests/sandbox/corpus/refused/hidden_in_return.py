# expect: refused
# line: 5
# kind: PolicyRefusal
if True:
    return eval("1 + 1")
