# expect: refused
# line: 4
# kind: PolicyRefusal
with open("/tmp/" + "dropped.py", "w") as file:
    file.write("print('hi')")
