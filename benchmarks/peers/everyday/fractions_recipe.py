from fractions import Fraction
from math import gcd, lcm

recipe = {"flour": Fraction(3, 2), "milk": Fraction(2, 3), "sugar": Fraction(1, 4)}
scaled = {name: amount * Fraction(2, 3) for name, amount in recipe.items()}
total = sum(scaled.values())
result = {
    "scaled": {name: str(amount) for name, amount in scaled.items()},
    "total": str(total),
    "parts": [total.numerator, total.denominator],
    "pi": str(Fraction(3.14159265).limit_denominator(1000)),
    "numbers": [gcd(84, 36), lcm(4, 6), float(Fraction("0.125"))],
}
