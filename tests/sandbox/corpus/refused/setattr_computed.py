# expect: refused
# line: 8
# kind: PolicyRefusal
def f():
    pass


setattr(f, "__co%s__" % "de", None)
