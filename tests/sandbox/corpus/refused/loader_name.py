# expect: refused
# line: 4
# kind: PolicyRefusal
__loader__.load_module("os")
