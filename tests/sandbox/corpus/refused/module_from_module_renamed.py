# expect: refused
# line: 4
# kind: PolicyRefusal
from random import _os as harmless

harmless.kill(1, 9)
