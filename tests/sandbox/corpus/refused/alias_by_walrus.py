# expect: refused
# line: 4
# kind: PolicyRefusal
if (run := exec):
    run("x = 1")
