# expect: refused
# line: 6
# kind: PolicyRefusal
import os

os.path.os._exit(3)
