# expect: refused
# line: 6
# kind: PolicyRefusal
from contextlib import nullcontext

with nullcontext(globals()) as names:
    names["x"] = 1
