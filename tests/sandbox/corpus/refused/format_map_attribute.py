# expect: refused
# line: 8
# kind: PolicyRefusal
def f():
    pass


"{f.__code__.co_names}".format_map({"f": f})
