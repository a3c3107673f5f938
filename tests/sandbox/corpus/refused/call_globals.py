# expect: refused
# line: 4
# kind: PolicyRefusal
globals()["answer"] = 42
