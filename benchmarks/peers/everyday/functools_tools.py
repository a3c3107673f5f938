from functools import cache, lru_cache, partial, reduce, total_ordering

calls = []


@cache
def steps(n):
    calls.append(n)
    return 1 if n < 2 else steps(n - 1) + steps(n - 2)


@lru_cache(maxsize=2)
def square(n):
    return n * n


@total_ordering
class Version:
    def __init__(self, text):
        self.parts = tuple(int(part) for part in text.split("."))

    def __eq__(self, other):
        return self.parts == other.parts

    def __lt__(self, other):
        return self.parts < other.parts


binary = partial(int, base=2)
for n in (1, 2, 1, 3, 1):
    square(n)
result = [
    steps(30),
    len(calls),
    square.cache_info().hits,
    binary("1011"),
    reduce(lambda total, digit: total * 10 + digit, [4, 2, 7]),
    Version("1.10") >= Version("1.9"),
]
