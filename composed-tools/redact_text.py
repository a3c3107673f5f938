# /// tool
# name = "redact_text"
# ///
# /// examples
# {
#  "inputs": {"text": "Mail ann@example.org or call +47 22 12 34 56."},
#  "result": {"text": "Mail [email] or call [phone].", "counts": {"email": 1, "phone": 1}}
# }
# {
#  "inputs": {"text": "Card 4111 1111 1111 1111, order 4111 1111 1111 1112", "kinds": ["card"]},
#  "result": {"text": "Card [card], order 4111 1111 1111 1112", "counts": {"card": 1}}
# }
# {
#  "inputs": {"text": "a@b.example asked c@d.example, a@b.example answered from 10.0.0.1", "numbered": true},
#  "result": {"text": "[email 1] asked [email 2], [email 1] answered from [ip 1]", "counts": {"email": 3, "ip": 1}}
# }
# {"inputs": {"text": ""}, "result": {"text": "", "counts": {}}}
# ///
import ipaddress
import re
from collections.abc import Callable
from typing import Literal, TypedDict

Kind = Literal["email", "iban", "card", "ip", "phone"]
# In the order in which they are looked for: what one pattern has masked, the next ones no longer see.
PATTERNS: dict[Kind, re.Pattern[str]] = {
    "email": re.compile(r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"),
    "iban": re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"),
    "card": re.compile(r"(?<![\w.])\d(?:[ -]?\d){12,18}(?![\w.]?\d)"),
    "ip": re.compile(r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7})(?![\w:])"),
    "phone": re.compile(r"(?<![\w.])(?:\+\d{1,3}[ .-]?)?(?:\(\d{1,5}\)|\d{2,5})(?:[ ./-]?\d{2,5}){1,5}(?![\w])"),
}
DATE = re.compile(r"\d{4}([./-])\d{2}\1\d{2}|\d{2}([./-])\d{2}\2\d{4}")


class Redacted(TypedDict):
    """The text with marks in it, and how many of each kind were masked."""

    text: str
    counts: dict[Kind, int]


def redact_text(text: str, kinds: list[Kind] | None = None, numbered: bool = False) -> Redacted:
    """Mask personal data in a text: e-mail addresses, IBANs, payment cards, IP addresses and phone numbers.

    Cards and IBANs are masked only if their check digits are right. It goes by the form of the data: it finds most of it,
    not all, and no names.

    Args:
        text: The text to mask.
        kinds: What to mask; everything if not given.
        numbered: Whether to number the marks, so that the same value has the same mark.
    """
    counts: dict[Kind, int] = {}
    for kind, pattern in PATTERNS.items():
        if kinds is None or kind in kinds:
            text, count = masked(text, kind, pattern, numbered)
            if count:
                counts[kind] = count
    return {"text": text, "counts": counts}


def masked(text: str, kind: Kind, pattern: re.Pattern[str], numbered: bool) -> tuple[str, int]:
    """The text with marks for one kind of data, and how many."""
    is_real = CHECKS.get(kind, bool)
    numbers: dict[str, int] = {}
    marks: list[str] = []

    def mark(match: re.Match[str]) -> str:
        value = match[0]
        if not is_real(value):
            return value
        number = numbers.setdefault(value, len(numbers) + 1)
        marks.append(f"[{kind} {number}]" if numbered else f"[{kind}]")
        return marks[-1]

    return pattern.sub(mark, text), len(marks)


def is_card(text: str) -> bool:
    """Whether the check digit is right: every second digit from the right is doubled, and the sum ends in 0."""
    digits = [int(letter) for letter in reversed(text) if letter.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def is_iban(text: str) -> bool:
    """Whether the check digits are right: with letters as numbers from 10 on, the remainder by 97 is 1."""
    code = text.replace(" ", "")
    return int("".join(str(int(letter, 36)) for letter in code[4:] + code[:4])) % 97 == 1


def is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_phone(text: str) -> bool:
    """Whether it has as many digits as a phone number, and is no date."""
    digits = sum(letter.isdigit() for letter in text)
    return 7 <= digits <= 15 and not DATE.fullmatch(text)


CHECKS: dict[Kind, Callable[[str], bool]] = {"card": is_card, "iban": is_iban, "ip": is_ip, "phone": is_phone}
