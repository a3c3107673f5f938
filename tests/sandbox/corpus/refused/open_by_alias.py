# expect: refused
# line: 5
# kind: PolicyRefusal
read = open
read("/etc/hosts").read()
