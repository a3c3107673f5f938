# expect: error
# line: 5
# kind: NameError
total = 1
print(totl)
