# expect: refused
# line: 4
# kind: PolicyRefusal
print.__self__.eval("1 + 1")
