# expect: refused
# line: 5
# kind: PolicyRefusal
expression = "6 * 7"
print(eval(expression))
