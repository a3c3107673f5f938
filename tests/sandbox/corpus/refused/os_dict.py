# expect: refused
# line: 6
# kind: PolicyRefusal
import os

os.__dict__["kill"](1, 9)
