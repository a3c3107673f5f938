# expect: refused
# line: 4
# kind: PolicyRefusal
(lambda: 0).__builtins__["eval"]("1")
