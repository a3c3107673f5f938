# expect: refused
# line: 8
# kind: PolicyRefusal
def numbers():
    yield 1


numbers().gi_frame.f_globals
