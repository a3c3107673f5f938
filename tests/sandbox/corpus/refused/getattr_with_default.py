# expect: refused
# line: 4
# kind: PolicyRefusal
getattr(3, "__subclasses__", None)
