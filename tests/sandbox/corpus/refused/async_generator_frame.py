# expect: refused
# line: 8
# kind: PolicyRefusal
async def ticks():
    yield 1


ticks().ag_frame.f_back
