# expect: refused
# line: 4
# kind: PolicyRefusal
type Number = eval("int")
Number.__value__
