# expect: refused
# line: 8
# kind: PolicyRefusal
import sys

s = sys
print(s.maxsize > 0)
s.modules["builtins"]
