# expect: refused
# line: 4
# kind: PolicyRefusal
def first[T: exec("print('bound')")](items: list[T]) -> T:
    return items[0]
