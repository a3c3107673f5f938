# expect: refused
# line: 4
# kind: PolicyRefusal
from logging import sys

sys.modules
