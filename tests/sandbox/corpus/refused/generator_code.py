# expect: refused
# line: 4
# kind: PolicyRefusal
(n for n in range(3)).gi_code
