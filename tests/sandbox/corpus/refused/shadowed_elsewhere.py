# expect: refused
# line: 9
# kind: PolicyRefusal
def score(eval):
    return eval + 1


print(score(1))
eval("1 + 1")
