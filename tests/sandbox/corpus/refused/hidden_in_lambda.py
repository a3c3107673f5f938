# expect: refused
# line: 6
# kind: PolicyRefusal
handlers = {
    "add": lambda a, b: a + b,
    "run": lambda text: eval(text),
}
handlers["add"](1, 2)
