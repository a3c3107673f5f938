# expect: refused
# line: 4
# kind: PolicyRefusal
from os import system

system("id")
