# expect: refused
# line: 6
# kind: PolicyRefusal
try:
    1 / 0
except eval("ZeroDivisionError"):
    pass
