# expect: refused
# line: 4
# kind: PolicyRefusal
def run(text, *, using=exec):
    return using(text)


run("x = 1")
