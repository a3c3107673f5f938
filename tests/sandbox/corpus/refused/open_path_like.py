# expect: refused
# line: 9
# kind: PolicyRefusal
class Innocent:
    def __fspath__(self):
        return "/proc/self/environ"


open(Innocent()).read()
