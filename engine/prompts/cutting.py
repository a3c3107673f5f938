"""Fitting texts into a number of tokens: each gets its share, and what does not fit is cut out of the middle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from go_ent.dataclass import dataclass
from go_ent.engine.prompts.fences import MAX_RUN, squeezed
from go_ent.engine.tokens import count, decode, encode

CHARACTERS = 16  # of a token, at the most that is worth reading
LEAST = 120  # tokens of a text below which showing it is no use


@dataclass(frozen=True, slots=True)
class Material:
    """A text that may be cut. `text` is its beginning and `tail` its end if `missing` characters between them were
    never read.
    """

    name: str  # for notes, on one line
    text: str
    whole: str  # where all of it is
    tail: str = ""
    missing: int = 0
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Cut:
    """What is shown of a text, and what is not: None is not a cut, but no room for it at all."""

    text: str | None
    note: str = ""


def share(wants: Sequence[int], total: int, weights: Sequence[float] | None = None) -> list[int]:
    """*total* among *wants*: by weight, nobody more than wanted, what one leaves goes to the others, the first ones
    first.
    """
    weights = weights or [1.0] * len(wants)
    largest_first = sorted(range(len(wants)), key=lambda at: wants[at] / weights[at], reverse=True)
    rests = list(accumulate(weights[at] for at in largest_first))
    given, left = [0] * len(wants), max(0, total)
    for at, rest in zip(reversed(largest_first), reversed(rests), strict=True):
        given[at] = min(wants[at], int(left * weights[at] / rest), left)
        left -= given[at]
    for at, want in enumerate(wants):
        more = min(want - given[at], left)
        given[at] += more
        left -= more
    return given


class Fitting:
    """Texts to be shown together, the most important first; counted once, then cut to any number of tokens.

    *most* is the largest such number, *heading* what the frame of each text takes of it.
    """

    def __init__(self, materials: Sequence[Material], most: int, heading: int) -> None:
        tame = [replace(one, text=squeezed(one.text), tail=squeezed(one.tail)) for one in materials]
        changed = [one.name for one, was in zip(tame, materials, strict=True) if one != was]
        self.notes = [f"{name}: runs of backticks longer than {MAX_RUN} were shortened" for name in changed]
        self._sized = [_Sized.of(one, heading) for one in _trimmed(tame, max(0, most) * CHARACTERS)]

    def within(self, total: int) -> list[Cut]:
        """What is shown of each. When there is no room for a little of each, the last ones are left out."""
        sized, left, kept = self._sized, total, []
        for at, one in enumerate(sized):
            if one.least <= left:
                kept.append(at)
                left -= one.least
        extra = share(
            [sized[at].want - sized[at].least for at in kept], left, [sized[at].material.weight for at in kept]
        )
        room = {at: sized[at].least + more for at, more in zip(kept, extra, strict=True)}
        return [one.cut(room.get(at)) for at, one in enumerate(sized)]


def _trimmed(materials: Sequence[Material], characters: int) -> list[Material]:
    """The same, none of them longer than could be shown: so much need not be counted."""
    rooms = share([len(one.text) + len(one.tail) for one in materials], characters, [one.weight for one in materials])
    trimmed = []
    for one, fair in zip(materials, rooms, strict=True):
        size, room = len(one.text) + len(one.tail), max(fair, LEAST * CHARACTERS)
        if room < size:
            tail = one.tail or one.text
            one = replace(one, text=one.text[: room - room // 2], tail=tail[len(tail) - min(room // 2, len(tail)) :])  # noqa: PLW2901
            one = replace(one, missing=one.missing + size - len(one.text) - len(one.tail))  # noqa: PLW2901
        trimmed.append(one)
    return trimmed


@dataclass(frozen=True, slots=True)
class _Sized:
    material: Material
    head: list[int]
    tail: list[int]
    frame: int
    marker: int
    want: int
    least: int

    @classmethod
    def of(cls, material: Material, heading: int) -> _Sized:
        head, tail = encode(material.text), encode(material.tail)
        marker = count(_marker(10**6, about=True, whole=material.whole)) + 2
        frame = heading + count(material.name)
        want = frame + len(head) + len(tail) + (marker if material.missing else 0)
        return cls(material, head, tail, frame, marker, want, min(want, frame + marker + LEAST))

    def cut(self, room: int | None) -> Cut:
        one = self.material
        read = len(self.head) + len(self.tail)
        total = read + one.missing * (read or 1) // (len(one.text) + len(one.tail) or 4)
        if room is None:
            return Cut(None, f"{one.name}: left out, {_tokens(total, about=one.missing > 0)}")
        if room >= self.want and not one.missing:
            return Cut(one.text)
        keep = room - self.frame - self.marker
        front, back = _ends(self.head, self.tail if one.missing else self.head, keep)
        left = max(1, total - count(front) - count(back))
        marker = _marker(left, about=one.missing > 0, whole=one.whole)
        note = f"{one.name}: {_tokens(left, about=one.missing > 0)} of {total} left out"
        return Cut("\n".join(part.strip("\n") for part in (front, marker, back) if part), note)


def _ends(head: list[int], tail: list[int], keep: int) -> tuple[str, str]:
    """The beginning of *head* and the end of *tail*, *keep* tokens together, in whole lines where lines are short."""
    last = min(max(keep // 2, keep - len(head)), len(tail))
    front, back = decode(head[: keep - last]), decode(tail[len(tail) - last :])
    at = front.rfind("\n")
    front = front[:at] if at > len(front) // 2 else front
    at = back.find("\n")
    return front, back[at + 1 :] if 0 <= at < len(back) // 2 else back


def _marker(left: int, *, about: bool, whole: str) -> str:
    return f"[… {_tokens(left, about=about)} left out here; the whole is {whole} …]"


def _tokens(number: int, *, about: bool) -> str:
    return f"{'about ' if about else ''}{number} tokens"
