# expect: error
# line: 5
# kind: SyntaxError
x = 1
y = x ++* 2
print(y)
