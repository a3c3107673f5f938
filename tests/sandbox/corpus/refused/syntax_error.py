# expect: error
# line: 4
# kind: SyntaxError
def broken(:
    pass
