# expect: refused
# line: 5
# kind: PolicyRefusal
match "1 + 1":
    case str(text) if eval(text) == 2:
        print("two")
