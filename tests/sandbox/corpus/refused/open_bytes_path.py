# expect: refused
# line: 4
# kind: PolicyRefusal
open(b"/etc/passwd")
