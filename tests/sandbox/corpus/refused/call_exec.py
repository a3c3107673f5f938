# expect: refused
# line: 4
# kind: PolicyRefusal
exec("import socket")
