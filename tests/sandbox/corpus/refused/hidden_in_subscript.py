# expect: refused
# line: 5
# kind: PolicyRefusal
table = [1, 2, 3]
table[eval("0")] += 1
