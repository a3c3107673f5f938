# expect: refused
# line: 4
# kind: PolicyRefusal
code = compile("1 + 1", "<string>", "eval")
