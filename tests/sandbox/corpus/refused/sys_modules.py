# expect: refused
# line: 6
# kind: PolicyRefusal
import sys

sys.modules["os"].system("id")
