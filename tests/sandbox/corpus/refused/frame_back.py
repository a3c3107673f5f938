# expect: refused
# line: 6
# kind: PolicyRefusal
def climb(frame):
    while frame:
        frame = frame.f_back


climb(None)
