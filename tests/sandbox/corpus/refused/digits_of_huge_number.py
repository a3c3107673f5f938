# expect: error
# line: 4
# kind: ValueError
str(7**20_000)
