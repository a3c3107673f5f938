# expect: refused
# line: 4
# kind: PolicyRefusal
e = eval
e("1 + 1")
