# expect: error
# line: 4
# kind: SyntaxError
print("never closed)
