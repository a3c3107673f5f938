# expect: refused
# line: 7
# kind: PolicyRefusal
import os

path = os.path.join(os.sep, "etc", "shadow")
open(path, "rb").read()
