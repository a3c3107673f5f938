# expect: [16, "a3b1c2d4", [2, -3, 5], 25, ["red", 4], ["Ah", "As", "Kh", "Ks"], ["ab", "ac", "ba", "bc", "ca", "cb"], [1, 4, 9, 16], ["a", "b", "3"], [["a", "x"], ["b", "-"]], [32, 9], ["a", "c", "e", "f"]]
from itertools import chain, combinations, compress, count, cycle, dropwhile, groupby, pairwise, permutations, product, starmap, takewhile, tee, zip_longest


def powerset(items):
    items = list(items)
    return chain.from_iterable(combinations(items, r) for r in range(len(items) + 1))


def run_length(text):
    return "".join(f"{letter}{len(list(group))}" for letter, group in groupby(text))


a, b = tee([5, 7, 4, 9])
changes = [y - x for x, y in pairwise(a)]
rounds = list(zip(cycle(["red", "blue"]), range(5)))
deck = [f"{rank}{suit}" for rank, suit in product("AK", "hs")]
[
    len(list(powerset("abcd"))),
    run_length("aaabccdddd"),
    changes,
    sum(b),
    rounds[-1],
    deck,
    ["".join(p) for p in permutations("abc", 2)],
    list(takewhile(lambda n: n < 20, (n * n for n in count(1)))),
    list(dropwhile(str.isdigit, "12ab3")),
    list(zip_longest("ab", "x", fillvalue="-")),
    list(starmap(pow, [(2, 5), (3, 2)])),
    list(compress("abcdef", [1, 0, 1, 0, 1, 1])),
]
