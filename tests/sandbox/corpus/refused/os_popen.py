# expect: refused
# line: 7
# kind: PolicyRefusal
import os

print(os.path.join("a", "b"))
os.popen("id").read()
