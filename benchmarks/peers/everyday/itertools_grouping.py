from itertools import chain, combinations, groupby, islice, pairwise, permutations, product, takewhile, zip_longest

events = [("mon", "rain"), ("mon", "wind"), ("tue", "sun"), ("mon", "fog")]
grouped = [[day, [kind for _, kind in members]] for day, members in groupby(events, key=lambda event: event[0])]
lengths = "".join(f"{letter}{len(list(run))}" for letter, run in groupby("aaabccdd"))
result = [
    grouped,
    lengths,
    list(combinations("abc", 2)),
    len(list(permutations(range(4)))),
    ["".join(pair) for pair in product("AK", "hs")],
    list(chain.from_iterable([[1], [2, 3]])),
    list(islice((n * n for n in range(100)), 2, 8, 2)),
    [b - a for a, b in pairwise([5, 7, 4])],
    list(takewhile(str.isalpha, "ab1c")),
    list(zip_longest("ab", "x", fillvalue="-")),
]
