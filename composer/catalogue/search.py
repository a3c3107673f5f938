"""Finding tools by words: BM25 over their names, descriptions and parameters."""

from __future__ import annotations

import functools
import heapq
import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from go_ent.composer.catalogue.spec import ToolSpec

# How much a word counts, by where it stands.
NAME, PARAMETER, DESCRIPTION, NOTE = 5.0, 1.5, 1.0, 0.5
SATURATION, LENGTH = 1.2, 0.6  # BM25's k1 and b
LONGER, SHORTER = 0.5, 0.4  # for a word that begins with the one searched for, and for one that it begins with

MAX_TEXT = 1000  # characters of a description that are indexed
MAX_NOTE = 300  # and of a parameter's
MAX_PARAMETERS = 50
MAX_WORDS = 32  # of a search
MAX_WORD = 64  # characters of a word
MAX_LIKE = 20  # words that begin alike
MIN_PREFIX = 3
STOP = frozenset(
    "a an and are as at be by for from if in into is it its of on or that "
    "the this to was which will with you your".split()
)


class Index:
    """Tools that can be searched. A word also finds its plural, its -ing and -ed forms, and what begins with it."""

    def __init__(self, specs: Iterable[ToolSpec]) -> None:
        self._specs = sorted(specs, key=lambda spec: spec.name)
        found: dict[float, dict[str, list[int]]] = {
            weight: defaultdict(list) for weight in (NAME, PARAMETER, DESCRIPTION, NOTE)
        }
        lengths = []
        for number, spec in enumerate(self._specs):
            length = 0.0
            for weight, text in _texts(spec):
                words = text.split()
                length += weight * len(words)
                numbers = found[weight]
                for word in (
                    words
                ):  # one step a word, since this is where the time goes; what each stands for is worked out once, below
                    numbers[word].append(number)
            lengths.append(length)
        average = sum(lengths) / len(lengths) if any(lengths) else 1.0
        self._damps = [SATURATION * (1 - LENGTH + LENGTH * length / average) for length in lengths]
        postings: dict[str, list[tuple[float, list[int]]]] = defaultdict(list)
        for weight, by_word in found.items():
            for word, numbers_of in by_word.items():
                for term in _terms(word):
                    if weight == NAME or term not in STOP:
                        postings[term].append((weight, numbers_of))
        self._postings = dict(postings)
        self._terms = sorted(postings)
        self._scores: dict[str, dict[int, float]] = {}
        self._names: dict[str, list[int]] = defaultdict(list)
        for number, spec in enumerate(self._specs):
            for name in {spec.name.lower(), spec.name.lower().rpartition(".")[2]}:
                self._names[name].append(number)

    def __len__(self) -> int:
        return len(self._specs)

    def search(self, words: str, limit: int = 10) -> list[ToolSpec]:
        """The best *limit* tools for *words*, best first; of equals, by name. A tool's own name finds that tool
        first.
        """
        scores: dict[int, float] = defaultdict(float)
        for term, weight in self._expanded(words).items():
            for number, score in self._scored(term).items():
                scores[number] += weight * score
        for number in self._names.get(words.strip().lower().removeprefix("tools."), ()):
            scores[number] += 1000
        best = heapq.nsmallest(max(limit, 0), scores, key=lambda number: (-round(scores[number], 9), number))
        return [self._specs[number] for number in best]

    def _scored(self, term: str) -> dict[int, float]:
        """What a term is worth for each tool that has it; worked out when it is first asked for."""
        if term not in self._scores:
            counts: dict[int, float] = defaultdict(float)
            for weight, numbers in self._postings[term]:
                for number in numbers:
                    counts[number] += weight
            rarity = math.log(1 + (len(self._specs) - len(counts) + 0.5) / (len(counts) + 0.5))
            self._scores[term] = {
                number: rarity * count / (count + self._damps[number]) for number, count in counts.items()
            }
        return self._scores[term]

    def _expanded(self, words: str) -> dict[str, float]:
        """The terms of the index that *words* ask for, each with how much it counts."""
        wanted: dict[str, float] = {}
        for term in islice(dict.fromkeys(_terms(words[:MAX_TEXT])), MAX_WORDS):
            near = {term: 1.0} if term in self._postings else {}
            if len(term) >= MIN_PREFIX:
                start = bisect_left(self._terms, term)
                for like in islice(self._terms, start, start + MAX_LIKE):
                    if like != term and like.startswith(term):
                        near[like] = LONGER
                if not near:
                    near = {term[:end]: SHORTER for end in range(MIN_PREFIX, len(term)) if term[:end] in self._postings}
            for like, weight in near.items():
                wanted[like] = max(weight, wanted.get(like, 0.0))
        return wanted


def _texts(spec: ToolSpec) -> Iterator[tuple[float, str]]:
    """What is searched of a tool, and how much it counts."""
    yield NAME, spec.name
    yield DESCRIPTION, spec.description[:MAX_TEXT]
    properties = spec.input_schema.get("properties") if isinstance(spec.input_schema, Mapping) else None
    if isinstance(properties, Mapping):
        for name, schema in islice(properties.items(), MAX_PARAMETERS):
            if isinstance(name, str):
                yield PARAMETER, name[:MAX_NOTE]
            note = schema.get("description") if isinstance(schema, Mapping) else None
            if isinstance(note, str):
                yield NOTE, note[:MAX_NOTE]


@functools.lru_cache(maxsize=8192)
def _terms(text: str) -> tuple[str, ...]:
    """The stems of a text's words; of a word in camelCase, also those of its parts."""
    found = []
    for word in re.findall(r"[^\W_]+", text):
        found.append(_stem(word[:MAX_WORD].lower()))
        if (
            not word.islower()
            and len(parts := re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\WA-Z\d_]+|\d+", word[:MAX_WORD])) > 1
        ):
            found += [_stem(part.lower()) for part in parts]
    return tuple(found)


def _stem(word: str) -> str:
    """What a word and its usual forms have in common: `query` for queries, `creat` for create, creates, created and
    creating.
    """
    if word in STOP or len(word) < 4:
        return word
    if word.endswith("ies"):
        word = f"{word[:-3]}y"
    elif word.endswith(("ches", "shes", "sses", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word
