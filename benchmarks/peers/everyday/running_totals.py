from itertools import accumulate
from operator import mul

deposits = [100, -30, 45, -80, 200]
balance = list(accumulate(deposits))
lowest = list(accumulate(balance, min))
factorials = list(accumulate(range(1, 8), mul))
result = {"balance": balance, "lowest": lowest, "factorials": factorials, "with start": list(accumulate(deposits, initial=1000))}
