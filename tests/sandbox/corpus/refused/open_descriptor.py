# expect: refused
# line: 4
# kind: PolicyRefusal
open(0).read()
