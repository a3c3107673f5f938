# expect: refused
# line: 4
# kind: PolicyRefusal
help(print)
