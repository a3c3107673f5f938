# expect: error
# line: 9
# kind: Stubborn
class Stubborn(Exception):
    def __str__(self):
        raise RuntimeError("no")


raise Stubborn
