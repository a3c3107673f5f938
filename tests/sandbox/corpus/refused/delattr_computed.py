# expect: refused
# line: 8
# kind: PolicyRefusal
def f():
    pass


delattr(f, "_".join(["", "", "globals", "", ""]))
