# expect: [0, 4]
"""Roman numerals.

>>> to_roman(1994)
'MCMXCIV'
"""
import doctest

VALUES = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X")]
VALUES += [(9, "IX"), (5, "V"), (4, "IV"), (1, "I")]


def to_roman(number):
    """Write a number the Roman way.

    >>> to_roman(4)
    'IV'
    >>> to_roman(0)
    Traceback (most recent call last):
        ...
    ValueError: there is no Roman 0
    """
    if number <= 0:
        raise ValueError(f"there is no Roman {number}")
    text = ""
    for value, letters in VALUES:
        count, number = divmod(number, value)
        text += letters * count
    return text


def from_roman(text):
    """
    >>> [from_roman(to_roman(n)) for n in (9, 44, 2024)]
    [9, 44, 2024]
    """
    total = 0
    for value, letters in VALUES:
        while text.startswith(letters):
            total, text = total + value, text[len(letters) :]
    return total


if __name__ == "__main__":
    outcome = doctest.testmod()

[outcome.failed, outcome.attempted]
