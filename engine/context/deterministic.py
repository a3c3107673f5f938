"""A summary without a model: the sentences that say what can't be guessed, in their order, within a number of tokens.

Each sentence is worth the facts that no chosen sentence has yet, what its words announce (a decision, an error, an open
item), how rare its words are, and how central it is among the others (as in TextRank). The best for their length are
taken.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import re
from collections import Counter as Tallies
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from go_ent.dataclass import dataclass
from go_ent.engine.context.counting import Counter
from go_ent.engine.context.facts import cues, sentences, words
from go_ent.engine.context.models import Message, Summary, SummaryRequest

KEPT, EARLIER, LATEST = HEADINGS = ("Must be kept:", "Earlier, in the order of time:", "Latest, word for word:")
LATEST_SHARE = 0.12  # of the room, for the latest messages word for word
LONGEST_TOKEN = 128  # characters
MOST_RANKED = 1500  # sentences in the graph; the others are too poor to be taken anyway
ROUNDS = 8
DAMPING = 0.85

WORTH = {"path": 2.0, "url": 2.0, "identifier": 2.0, "number": 1.5, "bare": 0.7, "name": 0.8}
ANNOUNCED = {"decisions": 1.2, "errors": 1.2, "open_items": 0.8}
RARITY = 5.2  # what the words themselves are worth, if they are rare and not yet told
MOST_WORTH = 5.0  # of the facts of one sentence: a listing is not worth more the longer its lines are
SPEAKERS = {
    "user": 1.15,
    "assistant": 1.0,
    "tool": 0.8,
    "summary": 1.4,
}  # what was chosen once is likely to matter still

_HEADING = re.compile(r"#{1,6} \S")
_BULLET = re.compile(r"(?:[-*+•] |\d{1,3}[.)] |[#>/*]{1,3} )+(?!\[)")
_TERM = re.compile(r"[^\W\d_]{3,40}")
_NAME = re.compile(r"(?<=[a-z] )[A-Z][A-Za-z0-9]{1,30}\b")
_CODE = re.compile(r"(?:raise|except|throw|catch|class|def|func|import|from|return|if|self)\b")
_SIGNS = re.compile(r"[{}\[\]()=<>|;\"\\_$&^~]")
_LABEL = re.compile(r"(?im)^[ \t]*+(?:user|assistant|tool|system|summary)[ \t]*+:")
_SHAPE = re.compile(r"[\w./:-]+")


@dataclass(slots=True)
class _Unit:
    """A sentence or a line, and what it is worth beside its facts."""

    text: str
    speaker: str
    place: int
    facts: dict[str, float]
    terms: dict[str, float]  # its words, and how rare each is
    worth: float
    weight: float

    def gain(self, told: set[str]) -> float:
        """What it would add to a summary that tells *told*; the longer, the less for its length."""
        new = sum(worth for fact, worth in self.facts.items() if fact not in told)
        rare = sum(rarity for term, rarity in self.terms.items() if term not in told)
        said_anew = rare / (sum(self.terms.values()) or 1.0)
        worth = min(new, MOST_WORTH) + said_anew * self.worth + RARITY * rare / (len(self.terms) + 2)
        return self.weight * worth / math.sqrt(12 + len(self.text) / 4)


class Deterministic:
    """Makes summaries without a model: the same of the same, in a time that grows with the text and not faster. It
    can't fail.
    """

    def __init__(self, counter: Counter | None = None) -> None:
        self._counter = counter or Counter()

    @property
    def name(self) -> str:
        return "deterministic"

    async def summarize(self, request: SummaryRequest) -> Summary:
        return Summary(text=await asyncio.to_thread(self.text, request), by=self.name, cost_usd=0.0)

    def text(self, request: SummaryRequest) -> str:
        """The summary. It blocks."""
        room = _Room(self._counter, request.target_tokens)
        messages = [message for message in request.messages if message.text.strip()]
        others = [message for message in messages if not message.pinned]
        must = [text if "\n" in text else f"- {text}" for text in dict.fromkeys(request.keep) if text.strip()]
        kept = room.take(must + [message.text for message in messages if message.pinned], KEPT)
        latest = _latest(others, room, int(request.target_tokens * LATEST_SHARE))
        told = _units(others[len(others) - len(latest) :])
        units = _units(others[: len(others) - len(latest)], {unit.text for unit in told})
        _weigh(units, " ".join((request.purpose, *request.keep)))
        return room.fitted(
            kept,
            _chosen(units, room, {fact for unit in told for fact in unit.facts}),
            [LATEST, *latest] if latest else [],
        )


class _Room:
    """How many tokens are left, and what was bought with the others."""

    def __init__(self, counter: Counter, target: int) -> None:
        self.counter, self.target, self.left = counter, target, target

    def cost(self, text: str) -> int:
        return self.counter.count(text + "\n")

    def take(self, texts: Iterable[str], heading: str) -> list[str]:
        """Those that there is room for, in their order, under a heading if there are any."""
        taken: list[str] = []
        for text in texts:
            cost = self.cost(text) + (0 if taken else self.cost(heading))
            if cost <= self.left:
                taken += [text] if taken else [heading, text]
                self.left -= cost
        return taken

    def cut(self, text: str) -> str:
        """As much of the beginning of a text as there is room for."""
        fits, most = 0, len(text)
        while fits < most:
            middle = (fits + most + 1) // 2
            fits, most = (middle, most) if self.cost(text[:middle] + " …") <= self.left else (fits, middle - 1)
        return text if fits == len(text) else text[:fits] + " …" if fits else ""

    def fitted(self, kept: Sequence[str], earlier: Sequence[str], latest: Sequence[str]) -> str:
        """All of it as one text, without the last sentences if the whole is a little more than its parts."""
        first, middle, last = list(kept), list(earlier), list(latest)
        while True:
            text = "\n".join((*first, *middle, *last))
            if self.counter.count(text) <= self.target:
                return text
            (middle or last or first).pop()


def _latest(messages: Sequence[Message], room: _Room, most: int) -> list[str]:
    """The last messages word for word, as many as fit into a part of the room."""
    left, texts = min(most, room.left) - room.cost(LATEST), list[str]()
    for message in reversed(messages):
        text = f"{message.speaker}: " + _LABEL.sub(r"  \g<0>", message.text)
        if len(text) > most * LONGEST_TOKEN or (left := left - room.cost(text)) < 0:
            break
        texts.append(text)
    if texts:
        room.left -= room.cost(LATEST) + sum(map(room.cost, texts))
    return texts[::-1]


def _units(messages: Sequence[Message], told: Collection[str] = ()) -> list[_Unit]:
    """The sentences of the messages with their facts, in the order of time, without those that are *told*; each
    once.
    """
    units: dict[str, _Unit] = {}
    for message in messages:
        for line in message.text.splitlines():
            for sentence in sentences(line):
                text = _flat(sentence)
                bare = text if (bullet := _BULLET.match(text)) is None else text[bullet.end() :]
                if len(bare) > 2 and bare not in units and bare not in HEADINGS and bare not in told:
                    units[bare] = _unit(
                        bare,
                        message.speaker,
                        len(units),
                        heading=message.speaker != "tool" and _HEADING.match(text) is not None,
                    )
    return list(units.values())


def _unit(text: str, speaker: str, place: int, *, heading: bool) -> _Unit:
    facts: dict[str, float] = {}
    for kind, fact in words(text):
        facts[fact] = WORTH["bare" if kind == "number" and fact.isdecimal() else kind]
    for name in _NAME.findall(text):
        facts.setdefault(name, WORTH["name"])
    terms = dict.fromkeys((term.lower() for term in _TERM.findall(text)), 0.0)
    found = cues(text)
    worth = sum(ANNOUNCED[cue] for cue in found) + (0.8 if heading else 0.0)
    prose = _prose(text, terms)
    if "errors" in found and not _CODE.match(text):
        prose = max(prose, 0.6)
    return _Unit(text, speaker, place, facts, terms, worth, SPEAKERS[speaker] * prose)


def _prose(text: str, terms: Collection[str]) -> float:
    """How much a line looks like something that was said, not like data or code: from 0.2 to 1."""
    signs = len(_SIGNS.findall(text)) / len(text)
    letters = sum(map(len, terms)) / len(text)
    if len(terms) < 4 or letters < 0.4:
        return 0.3 if signs < 0.06 else 0.2
    return 1.0 if signs < 0.06 else 0.4 if signs < 0.12 else 0.2


def _weigh(units: Sequence[_Unit], purpose: str) -> None:
    """Adds to each sentence what it is worth among the others."""
    seen_in = Tallies(term for unit in units for term in unit.terms)
    shapes = Tallies(_SHAPE.sub("a", unit.text) for unit in units if unit.speaker == "tool")
    asked = {term.lower() for term in _TERM.findall(purpose)}
    scale = math.log(len(units) + 1) or 1.0
    for unit in units:
        alike = unit.speaker == "tool" and not unit.worth and shapes[_SHAPE.sub("a", unit.text)] > 3
        unit.weight *= 0.4 if alike else 1.0  # one line of a log, of a listing, of a table
        unit.terms = {term: math.log((len(units) + 1) / seen_in[term]) / scale for term in unit.terms}
        unit.worth += 0.3 * len(asked.intersection(unit.terms)) / (len(asked) + 1)
    best = heapq.nlargest(MOST_RANKED, units, key=lambda unit: (unit.gain(set()), -unit.place))
    for unit, rank in zip(best, _ranks(best), strict=True):
        unit.worth += 0.5 * rank


def _ranks(units: Sequence[_Unit]) -> list[float]:
    """How central each sentence is, from 0 to 1: one is that shares terms with others that are.

    A sentence gives its rank to its terms, a term gives what it got to its sentences: no pair of sentences is looked
    at.
    """
    index: dict[str, list[int]] = defaultdict(list)
    for number, unit in enumerate(units):
        for term in unit.terms:
            index[term].append(number)
    shared = [members for members in index.values() if 1 < len(members) <= max(2, len(units) // 8)]
    degrees = Tallies(number for members in shared for number in members)
    ranks = [1.0] * len(units)
    for _ in range(ROUNDS):
        flows = [rank / (degrees[number] or 1) for number, rank in enumerate(ranks)]
        ranks = [1 - DAMPING] * len(units)
        for members in shared:
            share = DAMPING * sum(flows[number] for number in members) / len(members)
            for number in members:
                ranks[number] += share
    top = max(ranks, default=1.0)
    return [rank / top for rank in ranks]


def _chosen(units: Sequence[_Unit], room: _Room, told: set[str]) -> list[str]:
    """The sentences that tell most beside what is *told*, in the room that is left; in the order of time."""
    room.left -= room.cost(EARLIER)
    chosen: list[tuple[int, str]] = []
    queue = [(-unit.gain(told), unit.place) for unit in units]
    heapq.heapify(queue)
    refused = 0
    while queue and room.left > 4 and refused < 50:
        _, place = heapq.heappop(queue)
        gain = units[place].gain(told)
        if queue and -gain > queue[0][0]:  # worth less than it was, since others have told some of it
            heapq.heappush(queue, (-gain, place))
            continue
        line = _line(units[place])
        if (cost := room.cost(line)) > room.left:
            refused += 1
            continue
        room.left -= cost
        told.update(units[place].facts, units[place].terms)
        chosen.append((place, line))
    if not chosen and units and (line := room.cut(_line(max(units, key=lambda unit: (unit.gain(told), -unit.place))))):
        chosen.append((0, line))
    return [EARLIER, *(line for _, line in sorted(chosen))] if chosen else []


def _line(unit: _Unit) -> str:
    named = unit.speaker == "user" or _LABEL.match(unit.text)  # nobody's words look like those of another
    return f"- {unit.speaker}: {unit.text}" if named else f"- {unit.text}"


def _flat(text: str) -> str:
    return " ".join(text.split())
