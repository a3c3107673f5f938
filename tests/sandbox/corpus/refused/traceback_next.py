# expect: refused
# line: 9
# kind: PolicyRefusal
import sys

try:
    1 / 0
except ZeroDivisionError:
    print(sys.exc_info()[2].tb_next)
