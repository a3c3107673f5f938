# expect: refused
# line: 4
# kind: PolicyRefusal
from sys import _getframe

_getframe(0).f_globals
