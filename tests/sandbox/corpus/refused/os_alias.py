# expect: refused
# line: 6
# kind: PolicyRefusal
import os as operating

operating.fork()
