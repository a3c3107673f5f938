# expect: refused
# line: 4
# kind: PolicyRefusal
open(file="/etc/hosts", mode="r").read()
