# expect: refused
# line: 4
# kind: PolicyRefusal
import __main__

__main__.__dict__
