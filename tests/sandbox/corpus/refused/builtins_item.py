# expect: refused
# line: 4
# kind: PolicyRefusal
run = __builtins__["ev" + "al"]
run("1 + 1")
