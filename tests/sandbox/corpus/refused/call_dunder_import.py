# expect: refused
# line: 4
# kind: PolicyRefusal
os = __import__("os")
os.system("id")
