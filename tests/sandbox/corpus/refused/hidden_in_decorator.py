# expect: refused
# line: 4
# kind: PolicyRefusal
@eval
@lambda function: "print('decorated')"
def job():
    pass
