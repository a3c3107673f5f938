# expect: refused
# line: 5
# kind: PolicyRefusal
def dump(code):
    return code.co_code.hex()
