# expect: [[405, ["map", "compass", "sandwich", "glucose"]], 4, [0, 4, 7, 5, 2, 6, 1, 3], 292]
def knapsack(items, capacity):
    best = [(0, ())] * (capacity + 1)
    for name, (weight, value) in items.items():
        for room in range(capacity, weight - 1, -1):
            worth, chosen = best[room - weight]
            best[room] = max(best[room], (worth + value, (*chosen, name)), key=lambda pair: pair[0])
    return best[capacity]


def queens(n, row=0, columns=frozenset(), diagonals=frozenset(), anti=frozenset()):
    if row == n:
        yield ()
        return
    for column in range(n):
        if column in columns or row + column in diagonals or row - column in anti:
            continue
        for rest in queens(n, row + 1, columns | {column}, diagonals | {row + column}, anti | {row - column}):
            yield (column, *rest)


def change(amount, coins):
    ways = [1] + [0] * amount
    for coin in coins:
        for total in range(coin, amount + 1):
            ways[total] += ways[total - coin]
    return ways[amount]


items = {"map": (9, 150), "compass": (13, 35), "water": (153, 200), "sandwich": (50, 160), "glucose": (15, 60)}
[knapsack(items, 100), sum(1 for _ in queens(6)), next(queens(8)), change(100, [1, 5, 10, 25, 50])]
