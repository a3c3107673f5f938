# expect: refused
# line: 4
# kind: PolicyRefusal
print(__spec__.loader)
