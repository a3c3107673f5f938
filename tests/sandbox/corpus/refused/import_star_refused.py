# expect: refused
# line: 4
# kind: PolicyRefusal
from socket import *

currentframe()
