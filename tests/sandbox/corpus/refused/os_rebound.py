# expect: refused
# line: 8
# kind: PolicyRefusal
import os

o = os
print(o.getcwd())
o.execv("/bin/sh", ["sh"])
