# expect: refused
# line: 8
# kind: PolicyRefusal
class Config:
    debug = True


vars(Config())
