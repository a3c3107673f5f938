# expect: refused
# line: 4
# kind: PolicyRefusal
with open("../../host/secret.txt") as file:
    print(file.read())
