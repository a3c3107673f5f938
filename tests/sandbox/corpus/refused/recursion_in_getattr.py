# expect: error
# kind: RecursionError
class Mirror:
    def __getattr__(self, name):
        return getattr(self, name + "_")


Mirror().anything
