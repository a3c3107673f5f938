# expect: refused
# line: 7
# kind: PolicyRefusal
import sys

seen = []
sys.settrace(lambda *args: seen.append(args))
