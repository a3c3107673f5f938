# expect: [{"a": 1, "b": 2, "c": 3, "rest": [], "d": 4, "e": 5, "others": {}}, {"a": 1, "b": 2, "c": 3, "rest": [4, 5], "d": 6, "e": 5, "others": {"zeta": 7}}, 2.33, [0, [1, 2, 3, 4], 5, 1, 2, [[3, 4], [5, 6]]], {"a": 1, "b": 3, "c": 4}, ["a", "b", 0, 1, 4, "a", "b", "c"], [3, 4]]
def call(func, /, *args, **kwargs):
    return func(*args, **kwargs)


def signature_demo(a, b=2, /, c=3, *rest, d, e=5, **others):
    return {"a": a, "b": b, "c": c, "rest": rest, "d": d, "e": e, "others": others}


def mean(*numbers, ndigits=None):
    value = sum(numbers) / len(numbers)
    return value if ndigits is None else round(value, ndigits)


first, *middle, last = range(6)
(x, y), *pairs = [(1, 2), (3, 4), (5, 6)]
merged = {**{"a": 1, "b": 2}, **dict(b=3), "c": 4}
combined = [*"ab", *(n * n for n in range(3)), *merged]
head, (_, *tail) = 1, (2, 3, 4)
[
    call(signature_demo, 1, d=4),
    signature_demo(1, 2, 3, 4, 5, d=6, zeta=7),
    call(mean, *[1, 2, 4], ndigits=2),
    [first, middle, last, x, y, pairs],
    merged,
    combined,
    tail,
]
