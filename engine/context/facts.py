"""What a text says that can't be guessed: paths, names, numbers, decisions, errors and what is still open, found by
their form.

The work is linear in the text: it is cut into words of a bounded length, and what a word is depends on the word alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from functools import lru_cache
from typing import Literal, NamedTuple

from go_ent.dataclass import dataclass

Kind = Literal["path", "url", "identifier", "number"]

MOST = 5000  # facts of a kind
LONGEST_WORD = 300
LONGEST_LINE = 400  # of a sentence that is kept as a fact; a longer one is cut there

WORD = re.compile(
    r"""https?://[^\s<>"'`]{1,500}
    | \d{1,3},\d{1,2}(?=\s?(?:[kKMGT]i?B|m?s|%|€)(?!\w))  # 3,5 GB
    | [-+]?[$€£]?\d{1,3}(?:,\d{3}){1,6}(?:\.\d{1,9})?[\w%]{0,12}  # 1,240.50
    | [^\s"'`<>|=(){}\[\],;“”]{1,300}(?:\(\))?""",
    re.VERBOSE,
)
_EXTENSION = (
    "bat|bin|c|cc|cfg|conf|cpp|cs|css|csv|db|env|go|h|hpp|html|ini|ipynb|java|jpg|js|json|jsonl|jsx|key|kt|lock|log|lua|md|mjs|parquet|pdf|pem|"
    "php|png|proto|ps1|py|pyi|rb|rs|rst|sh|so|sql|sqlite|svg|swift|tar|tf|toml|ts|tsx|txt|vue|wasm|whl|xml|xz|yaml|yml|zip"
)
_PATH = re.compile(r"(?:[A-Za-z]:|~|\.{1,2})?[/\\]?[\w.@+-]+(?:[/\\][\w.@+*-]+)*[/\\]?")
_FILE = re.compile(rf"\.?[\w+-][\w.+-]*\.(?:{_EXTENSION})|Makefile|Dockerfile|\.[a-z]\w+(?:rc|ignore)")
_POSITION = re.compile(r"(?::\d{1,7}){1,2}$|\?.*")  # the line and the column in a file; what is asked for
_NUMBER = re.compile(
    r"(?:[-+~<>]?[$€£]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?[$€£%]?(?:[a-zA-Zµ°%]{1,4}(?:/[a-z]{1,3})?)?|\d{4}-\d\d-\d\d\S*|\d\d?:\d\d\S*|\d+/\d+|0x[0-9a-f]+)",
    re.A,
)
_PARTS = re.compile(r"[/\\]")
_HASH = re.compile(r"(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,64}|sha(?:1|256|512):[0-9a-f]{8,128}")
_IDENTIFIER = re.compile(
    r"""[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}       # a UUID
    | [A-Z][A-Z0-9]{0,9}-\d{1,8} | \#\d{1,8}                                # a ticket
    | [A-Za-z]\w*-(?=\S*\d)\w+(?:-\w+)*   # a name with a number
    | v\d+(?:\.\d+){0,5}(?:[-+.]\w+){0,3} | \d+(?:\.\d+){2,5}(?:[-+]\w+){0,3}(?::\d{1,5})?  # a version, an address
    | --?[a-zA-Z][\w-]*                                                    # an option
    | [\w.+-]+@[\w-]+(?:\.[\w-]+)+ | @\w[\w/-]+                             # a mailbox, a handle
    | _*+[^\W_]++(?:_++[^\W_]*+)++(?:\.\w+)*(?:\(\))? | __\w+__             # snake_case
    | [a-z0-9]*[a-z](?:[A-Z][a-z0-9]*)+(?:\.\w+)*(?:\(\))?                  # camelCase
    | (?:[A-Z][a-z0-9]+){2,}(?:\.\w+)*(?:\(\))? | [A-Z]{2,}[a-z][A-Za-z0-9]+
    | [A-Za-z_][\w-]*(?:(?:\.|::)[A-Za-z_][\w-]*)+(?::\d{1,5})?(?:\(\))?    # dotted.name, a host
    | \w+\(\)
    | [A-Za-z]+\d+[A-Za-z0-9]*""",
    re.VERBOSE | re.A,
)
_ORDINARY = frozenset("e.g i.e a.m p.m etc. and/or he/she s/he w/o n/a read/write input/output either/or".split())
_UNIT = re.compile(
    r"(?:[kKMGTP]?i?[Bb]|[mnµu]?s|secs?|mins?|h|hrs?|[a-z]{2,20}[^s\W\d]s|percent|%|[kMG]?Hz|[kcm]?m|k?g|USD|EUR|GBP|UTC|CET|rps|qps|px|[°]?C|per)",
    re.A,
)
_DAY = re.compile(r" \d{1,2}\b")
_MONTH = re.compile(r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}")

SENTENCE_END = re.compile(r"(?<=[.!?。！？])[\"')\]*_]{0,3}\s+(?=[^\s.,;:a-z])|(?<=[。！？])")
_DECISION = re.compile(
    r"(?i)\b(?:decided?|decisions?|agreed|agreement|chose|chosen|settled|opted|approved|signed "
    r"off|(?:go|going|went) (?:with|along)"
    r"|instead of|rather than|in favou?r of|we(?:'ll| will| won't)|will not|won't|must(?: not)?|mustn't|may "
    r"not|shall|never|not allowed"
    r"|forbidden|required?|requirement|constraint|no exceptions|wants? (?:us|to|it)|asked (?:us|for)|policy|deadline)\b"
)
_ERROR = re.compile(
    r"\b(?:\w{0,60}(?:Error|Exception|Warning)|ERROR|FATAL|CRITICAL|FAILED|[Ff]atal|[Pp]anic(?:ked)?|[Ee]rror:|[Ff]ail(?:ed|s|ure)"
    r"|[Cc]rash(?:ed|es)?|died|broken?|[Rr]efused|[Tt]imed out|[Ss]egfault|[Ee]xit(?:ed)?(?: with)? "
    r"(?:code|status) -?\d+"
    r"|exited with -?\d+|E[A-Z]{4,12})(?!\w)"
)
_OPEN = re.compile(
    r"(?i)^\s*[-*] \[ \]|\b(?:TODO|FIXME|XXX|TBD|open:|open (?:item|question|point|issue)s?|next "
    r"(?:step|up)s?\b|next:|remain(?:s|ing)"
    r"|still (?:to|has|have|need|see|miss|open|fail)\w*|not yet|pending|blocked|owe|follow[- ]up|waiting "
    r"(?:for|on)|find out|unclear"
    r"|to be (?:done|decided))|\?$"
)
_BEFORE = re.compile(r"[\w/\\@.-]\Z|\d,\Z")  # the word began earlier
_AFTER = re.compile(r"\w|[-./\\@]\w|::|,\d|/")  # the word goes on
_TRACEBACK = "Traceback (most recent call last):"


class Fact(NamedTuple):
    """Something that was said, and the number of the line that it is in, from 1."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found, in the order of the text, each once."""

    paths: tuple[Fact, ...] = ()
    urls: tuple[Fact, ...] = ()
    identifiers: tuple[Fact, ...] = ()
    numbers: tuple[Fact, ...] = ()
    decisions: tuple[Fact, ...] = ()
    errors: tuple[Fact, ...] = ()
    open_items: tuple[Fact, ...] = ()

    def texts(self) -> list[str]:
        """All of them, each text once."""
        return list(dict.fromkeys(fact.text for field in fields(self) for fact in getattr(self, field.name)))


def extract(text: str) -> Facts:
    """The facts of a text; of each kind no more than the first `MOST`."""
    found: dict[str, dict[str, int]] = {field.name: {} for field in fields(Facts)}

    def note(kind: str, fact: str, line: int) -> None:
        if len(found[kind]) < MOST:
            found[kind].setdefault(fact, line)

    in_traceback = False
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.isspace():
            continue
        for kind, fact in words(line):
            note(f"{kind}s", fact, number)
        for sentence in sentences(line):
            for cue in cues(sentence):
                note(cue, sentence, number)
        if _TRACEBACK in line:
            in_traceback = True
        elif in_traceback and not line[0].isspace():
            note("errors", line.strip()[:LONGEST_LINE], number)
            in_traceback = False
    return Facts(**{kind: tuple(Fact(fact, line) for fact, line in facts.items()) for kind, facts in found.items()})


def words(text: str) -> Iterator[tuple[Kind, str]]:
    """The words of a text that are facts by their form, with what they are. A number is told with its unit."""
    number = ""  # the one that may have a unit behind it
    end = 0
    for match in WORD.finditer(text):
        word = trimmed(match[0])
        start = match.start() + match[0].find(word)
        kind = kind_of(word)
        if number:
            between = text[end:start]
            if kind is None and between in {" ", "\u00a0"} and _UNIT.fullmatch(word):
                yield "number", number + between + word
                number = ""
                continue
            yield "number", number
        number = word if kind == "number" else ""
        end = start + len(word)
        if kind is not None and not number:
            yield kind, _POSITION.sub("", word) if kind == "path" else word
        elif kind is None and _MONTH.fullmatch(word) and (day := _DAY.match(text, end)):
            yield "number", word + day[0]
    if number:
        yield "number", number


def sentences(line: str) -> Iterator[str]:
    """The sentences of a line, none longer than `LONGEST_LINE`; a longer one is cut between words where it can be."""
    start = 0
    for end in (*(match.end() for match in SENTENCE_END.finditer(line)), len(line)):
        while start < end:
            stop = end
            if end - start > LONGEST_LINE:
                blank = line.rfind(" ", start + LONGEST_LINE // 2, start + LONGEST_LINE)
                stop = start + LONGEST_LINE if blank < 0 else blank + 1
            if piece := line[start:stop].strip():
                yield piece
            start = stop


def cues(sentence: str) -> list[str]:
    """What a sentence is by the words that are in it: decisions, errors, open_items."""
    kinds = (("decisions", _DECISION), ("errors", _ERROR), ("open_items", _OPEN))
    return [kind for kind, pattern in kinds if pattern.search(sentence)]


def trimmed(word: str) -> str:
    """A word without the punctuation around it."""
    if word.startswith("http"):
        return word.rstrip(".,:;!?*…" if "(" in word else ".,:;!?*…)")
    return word.strip("*!?…").rstrip(".:").lstrip(":")


@lru_cache(maxsize=50_000)
def kind_of(word: str) -> Kind | None:
    """What a trimmed word is, if it is a fact by its form."""
    if word.startswith(("http://", "https://")):
        return "url"
    if not 1 <= len(word) <= LONGEST_WORD or word.lower() in _ORDINARY:
        return None
    path = _POSITION.sub("", word)
    if _FILE.fullmatch(path):
        return "path"
    if word.isalpha() and (word.islower() or word.istitle() or word.isupper()):
        return None
    if _NUMBER.fullmatch(word):
        return "identifier" if _HASH.fullmatch(word) else "number"
    if ("/" in path or "\\" in path) and _PATH.fullmatch(path):
        parts = _PARTS.split(path)
        if path[0] in "/~." or len(parts) > 2 or parts[-1] == "" or any(not part.isalpha() for part in parts):
            return "path" if any(part.strip(".") for part in parts) else None
    return "identifier" if _HASH.fullmatch(word) or _IDENTIFIER.fullmatch(word) else None


def missing(facts: Facts | Iterable[str], text: str) -> list[str]:
    """Which of these are not in *text* as a whole: `api/user` is not in `api/users`, nor `1.2` in `1.2.3`."""
    wanted = facts.texts() if isinstance(facts, Facts) else facts
    return [one for one in dict.fromkeys(wanted) if one and not _has(text, one)]


def _has(text: str, one: str) -> bool:
    begins, ends = one[0].isalnum() or one[0] in "_/.-~", one[-1].isalnum() or one[-1] == "_"
    at = text.find(one)
    for _ in range(MOST):  # of a text that has it more often, all in longer words, it is not worth the time
        if at < 0:
            return False
        end = at + len(one)
        if not (begins and _BEFORE.search(text[max(0, at - 2) : at])) and not (
            ends and _AFTER.match(text[end : end + 2])
        ):
            return True
        at = text.find(one, at + 1)
    return False
