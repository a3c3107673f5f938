# expect: [[15, 20, 120, 120, 15], "13", 10, [1, 2, 3]]
def make_counter(start=0, step=1):
    count = start

    def increment(by=None):
        nonlocal count
        count += step if by is None else by
        return count

    def reset():
        nonlocal count
        count, previous = start, count
        return previous

    return increment, reset


def compose(*functions):
    def composed(value):
        for function in functions:
            value = function(value)
        return value

    return composed


total = 0


def accumulate(n):
    global total
    total += n
    return total


increment, reset = make_counter(10, 5)
steps = [increment(), increment(), increment(by=100), reset(), increment()]
adders = [lambda x, n=n: x + n for n in range(3)]
[accumulate(n) for n in range(5)]
[steps, compose(*adders, str)(10), total, [f(1) for f in adders]]
