# expect: ["XPPE XP LE ESP DELETZY LE EPY EZ PTRSE", 11, "LXFOPV EF RNHR", "ATTACK AT DAWN", true, false]
from itertools import cycle
from string import ascii_uppercase as ALPHABET


def shift(letter, by):
    return ALPHABET[(ALPHABET.index(letter) + by) % 26] if letter in ALPHABET else letter


def caesar(text, key):
    return "".join(shift(letter, key) for letter in text.upper())


def vigenere(text, key, *, decrypt=False):
    sign = -1 if decrypt else 1
    keys = cycle(ALPHABET.index(k) for k in key.upper())
    return "".join(shift(letter, sign * next(keys)) if letter.isalpha() else letter for letter in text.upper())


def crack(text):
    frequent = "ETAOIN"
    return max(range(26), key=lambda key: (sum(caesar(text, -key).count(letter) for letter in frequent), -key))


def luhn(number):
    digits = [int(d) for d in str(number)][::-1]
    return (sum(digits[::2]) + sum(sum(divmod(2 * d, 10)) for d in digits[1::2])) % 10 == 0


secret = caesar("Meet me at the station at ten to eight", 11)
encoded = vigenere("attack at dawn", "lemon")
[secret, crack(secret), encoded, vigenere(encoded, "lemon", decrypt=True), luhn(79927398713), luhn(79927398710)]
