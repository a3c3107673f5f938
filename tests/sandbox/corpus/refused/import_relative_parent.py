# expect: refused
# line: 4
# kind: PolicyRefusal
from ..guest.runner import scope
