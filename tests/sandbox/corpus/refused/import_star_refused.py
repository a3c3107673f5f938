# expect: refused
# line: 4
# kind: PolicyRefusal
from inspect import *

currentframe()
