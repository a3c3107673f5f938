# expect: refused
# line: 5
# kind: PolicyRefusal
name = "world"
f"hello {name} {eval('1 + 1'):>5}"
