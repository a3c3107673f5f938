# expect: [["0", "1/4", "1/3", "1/2", "2/3", "3/4", "1"], [4, 2, 6, 7], ["1/3", "1/8", "1/120"], "355/113", [12, 60, 120]]
from fractions import Fraction
from math import gcd, lcm, prod


def farey(n):
    a, b, c, d = 0, 1, 1, n
    yield Fraction(a, b)
    while c <= n:
        k = (n + b) // d
        a, b, c, d = c, d, k * c - a, k * d - b
        yield Fraction(a, b)


def continued_fraction(value):
    terms = []
    while True:
        whole, value = divmod(value, 1)
        terms.append(int(whole))
        if not value:
            return terms
        value = 1 / value


def egyptian(value):
    while value:
        unit = Fraction(1, -(-value.denominator // value.numerator))
        yield unit
        value -= unit


[
    [str(f) for f in farey(4)],
    continued_fraction(Fraction(415, 93)),
    [str(u) for u in egyptian(Fraction(7, 15))],
    str(Fraction(3.141592653589793).limit_denominator(1000)),
    [gcd(84, 36), lcm(4, 6, 10), prod(range(1, 6))],
]
