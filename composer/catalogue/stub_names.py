"""Text from elsewhere as names and lines of a stub: what it may become, and what it is called there.

Names, descriptions and keys come from servers that may be hostile: nothing of them stands in a stub but ASCII
identifiers, and quoted or docstring lines of printable characters.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Container
from itertools import count

from go_ent.composer.project.numbers import DIGITS

MAX_KEY = 100
TYPING = ("Any", "Literal", "NotRequired", "Protocol", "TypedDict", "Unpack")
WORDS = frozenset(TYPING) | {"str", "int", "float", "bool", "list", "dict", "tuple"}


def clean(text: object, most: int) -> str:
    """Text from elsewhere as one printable line, cut to *most* characters: it can't start a line of its own."""
    if not isinstance(text, str) or most <= 0:
        return ""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * most]).split())
    return cut(line + "…" if len(text) > 4 * most else line, most)


class Names:
    """The names of one text: which are taken, which words must be imported, which types are there already."""

    def __init__(self) -> None:
        self.taken = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *WORDS, "annotations", "builtins", "typing"}
        self.used: set[str] = set()
        self.bodies: dict[tuple[str, str], str] = {}
        self._others: dict[str, str] = {}
        self._numbers: dict[str, int] = {}

    def take(self, hint: str) -> str:
        """*hint*, or it with a number: a name that nothing else has."""
        name = hint
        if name in self.taken:
            number = self._numbers.get(hint, 2)
            while (name := f"{hint}{number}") in self.taken:
                number += 1
            self._numbers[hint] = number
        self.taken.add(name)
        return name

    def other_word(self, word: str) -> str:
        """Another name for `list`, say, for the class in which a tool is called that: there `list` would mean the
        tool.
        """
        if word not in self._others:
            self._others[word] = self.take(f"{word}_")
        return self._others[word]

    def imports(self) -> list[str]:
        """The import lines, as one block."""
        plain = ", ".join(word for word in TYPING if word in self.used)
        lines = ["from __future__ import annotations"] if "annotations" in self.used else []
        lines += [f"from typing import {plain}"] if plain else []
        for word, other in self._others.items():
            if other in self.used:
                lines.append(f"from {'typing' if word in TYPING else 'builtins'} import {word} as {other}")
        return ["\n".join(lines)] if lines else []


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def quotable(text: str, most: int) -> bool:
    return 0 < len(text) <= most and text.isprintable()


def plain(name: str) -> bool:
    """Whether it can be a parameter or a key as it is. Two leading underscores would be mangled, and non-ASCII ones
    normalised.
    """
    return (
        name.isascii()
        and name.isidentifier()
        and not keyword.iskeyword(name)
        and not name.startswith("__")
        and len(name) <= MAX_KEY
    )


def identifier(text: str) -> str:
    """*text* as a name that can be defined in a class."""
    made = re.sub(r"[^A-Za-z0-9_]", "_", text[:128])
    made = f"_{made}" if not made or made[0] in DIGITS else made
    made = f"_{made.lstrip('_')}" if made.startswith("__") else made
    return f"{made}_" if keyword.iskeyword(made) else made


def camel(text: str) -> str:
    """*text* as the name of a type: `search_issues` becomes `SearchIssues`."""
    made = "".join(word[0].upper() + word[1:] for word in re.findall(r"[A-Za-z0-9]+", text[:200]))[:60]
    return made if made and made[0] not in DIGITS else f"Type{made}"


def free(hint: str, taken: Container[str]) -> str:
    """*hint*, or it with a number, so that it isn't taken."""
    return next(name for name in (f"{hint}{number or ''}" for number in count()) if name not in taken)


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
