# expect: refused
# line: 5
# kind: PolicyRefusal
if False:
    import marshal
print(1)
