# expect: refused
# line: 8
# kind: PolicyRefusal
def f():
    pass


template = "{job.__init__.__globals__[secret]!r:>10}"
template.format(job=f)
