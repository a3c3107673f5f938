# expect: refused
# line: 4
# kind: PolicyRefusal
open("report.txt\0.png")
