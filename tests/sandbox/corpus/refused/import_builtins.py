# expect: refused
# line: 4
# kind: PolicyRefusal
import builtins

builtins.eval("1 + 1")
