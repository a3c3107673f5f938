# expect: refused
# line: 4
# kind: PolicyRefusal
print(open("/etc/passwd").read())
