"""Who may call what. Nothing is callable unless granted, and a grant can only be narrowed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from go_ent.composer.errors import BadName
from go_ent.sandbox.messages.near_names import did_you_mean, near

PATTERN = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]*\.)*(?:[A-Za-z_][A-Za-z0-9_]*|\*)")

# Never patterns that somebody wrote.
TOP_LEVEL = "."
EVERYTHING = "**"
NAMED_ONLY = frozenset({"engine"})  # what starts programs or spends money: `*` does not grant it


def check_pattern(pattern: str) -> str:
    """*pattern*, if it is a tool's full name, `namespace.*`, or `*`."""
    if not isinstance(pattern, str) or len(pattern) > 300 or not PATTERN.fullmatch(pattern):
        raise BadName(f"{pattern!r:.100} grants nothing: write a tool's full name, `namespace.*`, or `*`")
    return pattern


@lru_cache(4096)
def matches(pattern: str, name: str) -> bool:
    """`*` at the end stands for everything below; anything else must be the very name."""
    if pattern in ("*", EVERYTHING):
        return True
    if pattern == TOP_LEVEL:
        return "." not in name
    if pattern.endswith(".*"):
        return name.startswith(pattern[:-1])
    return pattern == name


def grants(pattern: str, name: str) -> bool:
    """Whether a pattern of a layer grants a tool. A bare `*` does not grant what must be named."""
    return matches(pattern, name) and not (pattern == "*" and name.partition(".")[0] in NAMED_ONLY)


class Grants:
    """Layers of patterns: a tool is granted if every layer has a pattern that matches it.

    Immutable. `Grants()` grants nothing; `narrowed` adds a layer, so it can never grant more. `top_level` grants what
    has no namespace: composed tools, which can do no more than what they call is granted, and functions that the
    program itself passed in.
    """

    __slots__ = ("_approve", "_layers")

    def __init__(self, patterns: Iterable[str] = (), approve: Iterable[str] = (), *, top_level: bool = False) -> None:
        self._layers: tuple[frozenset[str], ...] = (_checked(patterns) | ({TOP_LEVEL} if top_level else frozenset()),)
        self._approve: frozenset[str] = _checked(approve)

    def allows(self, name: str) -> bool:
        """Whether every layer grants the tool."""
        return all(any(grants(pattern, name) for pattern in layer) for layer in self._layers)

    @classmethod
    def everything(cls) -> Grants:
        """Grants without a limit: for what reaches nothing, as the examples of a tool."""
        made = cls()
        made._layers = (frozenset((EVERYTHING,)),)
        return made

    def needs_approval(self, name: str) -> bool:
        """Whether it is listed as needing approval; a narrower grant can add to the list, never take from it."""
        return any(matches(pattern, name) for pattern in self._approve)

    def narrowed(self, patterns: Iterable[str], approve: Iterable[str] = ()) -> Grants:
        """What this and *patterns* both grant."""
        made = Grants()
        made._layers = (*self._layers, _checked(patterns))
        made._approve = self._approve | _checked(approve)
        return made

    def may_reach(self, namespace: str) -> bool:
        """Whether anything of that namespace can be granted: if not, its source needn't be asked."""
        below = f"{namespace}." if namespace else ""
        return all(any(_overlaps(pattern, below) for pattern in layer) for layer in self._layers)

    def __repr__(self) -> str:
        return f"Grants({' & '.join(str(sorted(layer)) for layer in self._layers)})"


def unmatched(patterns: Iterable[str], known: Mapping[str, Collection[str] | None]) -> list[str]:
    """The patterns that fit no tool, and why. *known* has the full names of the tools of each namespace, None where
    they are not known; "" is for tools without one.
    """
    found = []
    for pattern in dict.fromkeys(patterns):
        namespace, dot, _ = pattern.partition(".")
        if pattern == "*":
            continue
        if dot and namespace not in known:
            meant = did_you_mean(near(namespace, [space for space in known if space]))
            found.append(f"{pattern}: there is no source {namespace}{meant}")
            continue
        names = known.get(namespace if dot else "")
        if names is None or any(matches(pattern, name) for name in names):
            continue
        if pattern.endswith(".*"):
            found.append(f"{pattern}: {pattern[:-2]} has no tools")
        else:
            kind = "tool" if dot else "composed tool"
            found.append(f"{pattern}: there is no {kind} {pattern}{did_you_mean(near(pattern, names))}")
    return found


def _checked(patterns: Iterable[str]) -> frozenset[str]:
    if isinstance(patterns, str):
        raise BadName(f"{patterns!r:.100}: grants are a list of names, not one text")
    return frozenset(check_pattern(pattern) for pattern in patterns)


def _overlaps(pattern: str, below: str) -> bool:
    if pattern == "*":
        return below.partition(".")[0] not in NAMED_ONLY
    if pattern == EVERYTHING:
        return True
    if pattern == TOP_LEVEL:
        return not below
    return pattern.startswith(below) or (pattern.endswith(".*") and below.startswith(pattern[:-1]))
