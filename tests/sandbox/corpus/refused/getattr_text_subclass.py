# expect: refused
# line: 16
# kind: PolicyRefusal
class Name(str):
    def startswith(self, *args):
        return False

    def endswith(self, *args):
        return False


def f():
    pass


getattr(f, Name("__globals__"))["__name__"]
