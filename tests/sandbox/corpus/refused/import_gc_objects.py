# expect: refused
# line: 4
# kind: PolicyRefusal
from gc import get_objects

len(get_objects())
