# expect: refused
# line: 4
# kind: PolicyRefusal
from . import secrets_of_the_host
