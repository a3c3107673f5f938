# expect: refused
# line: 9
# kind: PolicyRefusal
def f():
    pass


match f:
    case object(__globals__=names):
        print(names)
