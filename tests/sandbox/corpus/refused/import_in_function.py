# expect: refused
# line: 5
# kind: PolicyRefusal
def never_called():
    from ctypes import cdll

    return cdll


print("hello")
