# expect: ["Dear Ann,\nyour order 17 costs $9.50.\n$extra", "order_id", "1 and 2", "uryyb", "One Two", [1, 4]]
import string
from string import Template

LETTER = Template(
    """Dear $name,
your order ${order_id} costs $$$total.
$extra"""
)


class Percent(Template):
    delimiter = "%"


def password_score(text):
    kinds = [string.ascii_lowercase, string.ascii_uppercase, string.digits, string.punctuation]
    return sum(any(ch in kind for ch in text) for kind in kinds)


letter = LETTER.safe_substitute(name="Ann", order_id=17, total="9.50")
try:
    LETTER.substitute(name="Bob")
except KeyError as error:
    missing = error.args[0]
table = str.maketrans(string.ascii_lowercase, string.ascii_lowercase[13:] + string.ascii_lowercase[:13])
[letter, missing, Percent("%a and %b").substitute(a=1, b=2), "hello".translate(table), string.capwords("one two"), [password_score(p) for p in ("abc", "aB3!")]]
