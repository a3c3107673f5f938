# expect: error
# line: 5
# kind: IndentationError
if True:
print("not indented")
