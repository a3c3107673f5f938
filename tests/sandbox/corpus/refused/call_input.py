# expect: refused
# line: 4
# kind: PolicyRefusal
name = input("What is your name? ")
print("Hello", name)
