# expect: {"kinds": ["NAME", "OP", "NUMBER", "OP", "NAME", "OP", "NUMBER"], "last": {"kind": "NUMBER", "text": "2", "column": 18}, "problem": "unexpected '?' at column 2", "fields": ["kind", "text", "column"]}
import re
from typing import Iterator, NamedTuple


class Token(NamedTuple):
    kind: str
    text: str
    column: int


SPEC = [
    ("NUMBER", r"\d+(?:\.\d*)?"),
    ("NAME", r"[A-Za-z_]\w*"),
    ("OP", r"[+\-*/^()=]"),
    ("SKIP", r"[ \t]+"),
    ("BAD", r"."),
]
PATTERN = re.compile("|".join(f"(?P<{name}>{regex})" for name, regex in SPEC))


def tokenize(code: str) -> Iterator[Token]:
    for match in PATTERN.finditer(code):
        kind = match.lastgroup
        if kind == "SKIP":
            continue
        if kind == "BAD":
            raise SyntaxError(f"unexpected {match.group()!r} at column {match.start()}")
        yield Token(kind, match.group(), match.start())


tokens = list(tokenize("area = 3.14 * r ^ 2"))
try:
    list(tokenize("a ? b"))
except SyntaxError as error:
    problem = error.msg
{"kinds": [t.kind for t in tokens], "last": tokens[-1]._asdict(), "problem": problem, "fields": Token._fields}
