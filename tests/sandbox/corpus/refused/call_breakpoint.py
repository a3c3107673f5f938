# expect: refused
# line: 5
# kind: PolicyRefusal
def buggy(x):
    breakpoint()
    return x / 0


buggy(1)
