# expect: refused
# line: 4
# kind: PolicyRefusal
actions = {"print": print, "run": exec}
actions["run"]("print('hi')")
