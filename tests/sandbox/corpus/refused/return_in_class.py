# expect: error
# line: 5
# kind: SyntaxError
class Odd:
    return 1
