# expect: refused
# line: 8
# kind: PolicyRefusal
def f():
    pass


for f.__code__ in ():
    pass
