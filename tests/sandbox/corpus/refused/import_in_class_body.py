# expect: refused
# line: 5
# kind: PolicyRefusal
class Plugin:
    import importlib

    def load(self, name):
        return self.importlib.import_module(name)
