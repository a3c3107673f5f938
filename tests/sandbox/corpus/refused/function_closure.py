# expect: refused
# line: 11
# kind: PolicyRefusal
def outer(secret):
    def inner():
        return secret

    return inner


outer(42).__closure__[0].cell_contents
