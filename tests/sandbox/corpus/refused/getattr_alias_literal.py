# expect: refused
# line: 5
# kind: PolicyRefusal
look = getattr
look(object, "__subclasses__")()
