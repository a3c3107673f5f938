# expect: refused
# line: 4
# kind: PolicyRefusal
hasattr(print, "__globals__")
