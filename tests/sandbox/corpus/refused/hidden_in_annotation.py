# expect: refused
# line: 4
# kind: PolicyRefusal
def scale(value: exec("print('annotated')"), by=2):
    return value * by
