# expect: refused
# line: 9
# kind: PolicyRefusal
def f():
    pass


name = "__" + "globals".lower() + "__"
getattr(f, name)
