# expect: refused
# line: 5
# kind: PolicyRefusal
up = "/".join([".."] * 4)
with open(f"{up}/etc/hostname") as file:
    print(file.read())
