# expect: refused
# line: 4
# kind: PolicyRefusal
f"{3.14159:{globals()['width']}.2f}"
