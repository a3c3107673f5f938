# expect: [["high card", "high card", "straight flush", "full house", "straight", "two pairs"], "TS JS QS KS AS", true]
from collections import Counter

RANKS = "23456789TJQKA"
NAMES = ["high card", "pair", "two pairs", "three", "straight", "flush", "full house", "four", "straight flush"]


def classify(hand):
    cards = hand.split()
    ranks = sorted((RANKS.index(card[0]) for card in cards), reverse=True)
    if ranks == [12, 3, 2, 1, 0]:
        ranks = [3, 2, 1, 0, -1]
    flush = len({card[1] for card in cards}) == 1
    straight = ranks[0] - ranks[4] == 4 and len(set(ranks)) == 5
    counts = sorted(Counter(ranks).items(), key=lambda item: (item[1], item[0]), reverse=True)
    shape = tuple(count for _, count in counts)
    kind = (
        8 if straight and flush
        else 7 if shape == (4, 1)
        else 6 if shape == (3, 2)
        else 5 if flush
        else 4 if straight
        else {(3, 1, 1): 3, (2, 2, 1): 2, (2, 1, 1, 1): 1}.get(shape, 0)
    )
    return kind, [rank for rank, _ in counts]


hands = ["2H 3D 5S 9C KD", "2C 3H 4S 8C AH", "TS JS QS KS AS", "7H 7D 7S 2C 2D", "AH 2D 3S 4C 5H", "9H 9D 4S 4C QH"]
[[NAMES[classify(hand)[0]] for hand in hands], max(hands, key=classify), classify(hands[1]) > classify(hands[0])]
