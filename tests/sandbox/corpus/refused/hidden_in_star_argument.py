# expect: refused
# line: 4
# kind: PolicyRefusal
print(*map(eval, ["1 + 1", "2 + 2"]))
