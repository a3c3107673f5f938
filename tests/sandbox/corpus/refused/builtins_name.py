# expect: refused
# line: 4
# kind: PolicyRefusal
__builtins__
