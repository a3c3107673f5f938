"""The figures of context: how fast text is counted, and how much of what matters the summariser that needs no model keeps.

Transcripts are made from a seed. Facts are planted in the middle of them, in sentences like any other; a fact is kept
if the summary has, in one line, its value and what it is about.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import difflib
import inspect
import json.decoder
import logging
import random
import re
import secrets
import tarfile
import textwrap
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pydoc_data.topics import topics

from benchmarks.measure import Row, clocked, median
from benchmarks.report import Report, command
from go_ent.engine import tokens
from go_ent.engine.context.counting import Counter
from go_ent.engine.context.deterministic import Deterministic
from go_ent.engine.context.facts import missing
from go_ent.engine.context.models import Message, Speaker, SummaryRequest

TRANSCRIPTS = 30
QUICK_SEED = 1  # of a quick look, which is compared with that of another day
MEGABYTE = 1_000_000
SHARE = 0.2  # of the size that a summary may have
BOUND_PINNED, BOUND_PLANTED = 0.95, 0.80
BOUND_COUNT_S, BOUND_SUMMARY_S = 0.3, 5.0

WORDS = (
    "auth billing cache cart catalog checkout cluster cursor digest dispatch export feed gateway index ingest invoice ledger lease mailer "
    "manifest metrics nightly notify orders parser payout pipeline probe profile quota region replay report router scheduler search session "
    "shard shipping snapshot stream sync tenant token upload vault vendor webhook worker"
).split()
EXTENSIONS = "py ts go rs sql yaml toml json md sh proto tf".split()
TOOLS = "Postgres Redis Kafka SQLite RabbitMQ NATS S3 DynamoDB Envoy nginx gRPC Terraform Celery Temporal OpenSearch ClickHouse".split()
PEOPLE = "Amira Bram Chiara Dmitri Esra Femke Goran Hanae Ines Jonas Keiko Lucia Mateus Nadia Oskar Priya".split()
ERRORS = "TimeoutError ConnectionResetError PermissionError KeyError DeadlockDetected OutOfMemoryError SchemaMismatch LeaseExpired".split()

# A sentence, and what of it must be found together: names of slots, and words as they are.
Phrasing = tuple[str, tuple[str, ...]]
PHRASINGS: tuple[Phrasing, ...] = (
    (
        "It turned out that the {word} consumer reads its offsets from {path}, which nobody had mentioned before.",
        ("path", "offsets"),
    ),
    (
        "The only place where the discount is rounded is {ident}, so that is where a fix has to go.",
        ("ident", "discount"),
    ),
    ("{person} confirmed on the call that the {word} contract caps us at {number} a day.", ("number", "contract")),
    (
        "After some back and forth we settled on {tool} instead of {tool2} for the {word} store.",
        ("tool", "tool2", "store"),
    ),
    ("For the record, the staging tenant is {id} and it is not shared with anyone.", ("id", "tenant")),
    ("Under load the {word} service died with {error} after roughly {number}.", ("error", "number")),
    ("What bit us last time was that {ident} silently swallows the second argument.", ("ident", "argument")),
    (
        "They asked for the cut-over to happen on {date} because the auditors are in the house the week after.",
        ("date", "cut-over"),
    ),
    ("Nobody outside the platform team may write to {path}; that was agreed with security.", ("path", "security")),
    ("The rollback bundle is stored as {id}, and restoring it took {number} in the rehearsal.", ("id", "number")),
    (
        "I'd keep {tool} out of this release: {person} is against it, and the {word} numbers do not justify it.",
        ("tool", "release"),
    ),
    (
        "One more thing about the export: rows older than {number} are dropped before they reach {ident}.",
        ("number", "ident"),
    ),
    ("The customer behind ticket {ticket} still sees the old totals, and we owe them an answer.", ("ticket", "totals")),
    (
        "Memory peaked at {number} while the {word} job was running, which is above what the node has.",
        ("number", "Memory"),
    ),
    ("So the flag we need is {flag}, without it the {word} step is skipped and nothing says so.", ("flag", "skipped")),
    ("Version {version} of the driver is the last one that works with our {word} proxy.", ("version", "driver")),
    ("{person} owns the credentials rotation, and wants to be told before {ident} is touched.", ("person", "ident")),
    (
        "We will not migrate the {word} tables in this pass; the plan is to do that once {ticket} is closed.",
        ("ticket", "tables"),
    ),
    ("The process left with exit code {code} as soon as {path} was mounted read-only.", ("code", "path")),
    ("Traffic for the pilot goes to {host}, everything else stays where it is.", ("host", "pilot")),
    ("My reading is that the race sits between {ident} and the flush in {path}.", ("ident", "path")),
    ("Legal wants us to delete the raw {word} events after {number}, no exceptions.", ("number", "Legal")),
    ("Could somebody find out why {url} answers with a redirect for tenants in the north?", ("url", "redirect")),
    ("The commit that broke it is {hash}, you can see it by bisecting the {word} suite.", ("hash", "broke")),
    ("Prices are held in minor units everywhere except in {path}, where they are floats.", ("path", "minor units")),
    ("On the replica the lag never came below {number}, so reads after writes can't go there.", ("number", "replica")),
    ("Chose {tool} for the {word} queue, mainly because {person}'s team already runs it.", ("tool", "queue")),
)
# Never looked at while the summariser was tuned.
HELD_OUT: tuple[Phrasing, ...] = (
    ("Apparently the {word} certificates are read from {path} at start-up and never again.", ("path", "certificates")),
    ("If you grep for it, {ident} is the function that decides who gets the trial.", ("ident", "trial")),
    ("Finance signed off on {money} for the quarter and not a cent more.", ("money", "Finance")),
    ("The nightly run stopped half way, complaining about {error} in {path}.", ("error", "path")),
    ("{person} would rather see {tool} than {tool2} there, and the rest of us went along.", ("tool", "tool2")),
    ("Requests above {number} get refused by the edge, which explains the missing uploads.", ("number", "edge")),
    ("The shadow deployment has the id {id}; tear it down when the comparison is done.", ("id", "shadow")),
    ("Our agreement with the partner says that they call {url} at the most twice a minute.", ("url", "partner")),
    ("It is {ident} that holds the lock for too long, the profile leaves no doubt.", ("ident", "lock")),
    ("As of {date} the old signing key is refused, so the clients have to be out by then.", ("date", "signing key")),
    ("What remains is {ticket}: the importer loses the last line of a file without a newline.", ("ticket", "importer")),
    ("Pinning {version} made the flakiness go away, at least on the arm builders.", ("version", "flakiness")),
    ("Somebody has set {flag} by hand on two of the machines, hence the difference.", ("flag", "machines")),
    ("Back-pressure begins at {number} in the {word} buffer, as measured twice.", ("number", "buffer")),
)
# Facts without a name, a number or a path in them, and without a word that announces them: only a reader who understands the text
# can tell them from what is said beside them, or who sees that nothing else is said in such words.
PLAIN: tuple[Phrasing, ...] = (
    (
        "The upstairs team shares a single login, which is why the audit trail says nothing.",
        ("single login", "audit trail"),
    ),
    ("Whoever is on duty restarts the importer by hand every other morning.", ("restarts the importer", "by hand")),
    (
        "Our largest customer reads the mails as plain text, pictures and tables get lost there.",
        ("largest customer", "plain text"),
    ),
    ("The sandbox talks to the real payment provider, contrary to its name.", ("sandbox", "real payment provider")),
    (
        "Half of the addresses come from an old spreadsheet and have their columns swapped.",
        ("old spreadsheet", "columns swapped"),
    ),
    (
        "Translations are copied over at build time and quietly win over edits in the tool.",
        ("Translations", "build time"),
    ),
    ("The previous owner kept the mapping in his head and has left the company.", ("mapping", "left the company")),
    ("People in the warehouse wear gloves, small buttons are of no use to them.", ("gloves", "small buttons")),
)
FILLER = (
    "Let me have a look at {path} first.",
    "That looks reasonable to me so far, and it reads well.",
    "I will go through the code step by step and explain what I find on the way.",
    "The {word} module is organised in the usual way, with a thin layer on top and the details below.",
    "There is nothing surprising in here as far as I can tell.",
    "Okay, that makes sense, thanks for the explanation.",
    "Next I am going to open {path} and see how it is wired up.",
    "As you can see, {ident} is called from a couple of places, which is what one would expect.",
    "It is worth keeping in mind that this part of the system has grown over several years.",
    "I ran the tests again and they pass, {count} of them, in {seconds} seconds.",
    "We could of course restructure this, but it would not buy us much at the moment.",
    "Good question, I was wondering about the same thing.",
    "The naming is a little unfortunate, though it is consistent with the rest.",
    "Reading further, the {word} handler delegates to {ident} and then returns.",
    "In general the approach here is fine, and the comments are helpful.",
    "I think that we are on the right track with this.",
    "Here is a short overview of how the pieces fit together before I go into the details.",
    "Sorry, I misread that, let me try once more.",
    "The documentation explains the idea behind it at some length.",
    "Most of the functions are short, and the longer ones are mostly long because of error handling.",
    "Please continue with the {word} part when you are done with this.",
    "That file has {count} lines, most of which are declarations.",
    "I have updated {path} accordingly and am moving on.",
    "Nothing else uses it, so the change stays local.",
    "One could argue about the style, but that is a matter of taste.",
    "It also helps to remember how requests travel through the {word} layer.",
    "Does that answer your question, or shall I dig deeper?",
    "The tests around {ident} are thorough, so I am not worried about regressions.",
    "Sure, take your time, there is no hurry on my side.",
    "Again the pattern is the same as in the {word} package, which makes it easy to follow.",
    "Let me know if you would like me to go into more depth anywhere.",
    "I am now going to compare both variants and see which one is easier to read.",
    "As mentioned above, the flow is linear and there are few branches.",
    "We should be careful not to mix this up with the {word} one.",
    "This must have been written with a different use in mind.",
    "All in all it took {seconds} seconds, the same as before.",
    "We will see about that when we get to {path}.",
    "You would never guess from its name, but {ident} is only used in the tests.",
    "I still have to read the rest of {path}, which is {count} lines long.",
    "What does {ident} do when it is called twice, I wonder?",
    "There was a warning from the {word} linter in line {count}, which I have fixed.",
    "The import of {ident} was unused, so I removed it.",
    "In {path} the order of the arguments is the other way round, for no reason that I could find.",
    "It failed at first because I had a typo in {ident}, and it works now.",
    "I renamed {ident} to {ident}, as you asked, and ran the formatter.",
    "{person} wrote most of {path}, judging by the history.",
    "Between {path} and {path} there is some duplication, {count} lines or so.",
    "The diff touches {count} files, most of them below {path}.",
    "{tool} is mentioned in a comment of {ident}, though only in passing.",
    "Instead of reading all of it I searched for {ident}, which gave {count} hits.",
)
OPENERS = (
    "",
    "",
    "",
    "",
    "Well, ",
    "To be fair, ",
    "Right: ",
    "For what it is worth, ",
    "By the way, ",
    "Hm, ",
    "Then again, ",
    "Fine. ",
)
TAILS = (
    *("", "", "", "", "", ""),
    " That is all there is to it.",
    " More about this below.",
    " It was like that before, too.",
    " You can check that easily.",
    " I leave it at that for now.",
    " Compare it with the other one if in doubt.",
)
SOURCES = (
    argparse,
    asyncio.queues,
    difflib,
    json.decoder,
    logging,
    random,
    tarfile,
    textwrap,
)  # real code, as an agent reads it


@cache
def book() -> list[str]:
    """Sentences of real prose, none like the other: Python's reference, which comes with it."""
    text = " ".join(" ".join(topics[name].split()) for name in sorted(topics))
    return [sentence for sentence in re.split(r"(?<=[a-z]\.) (?=[A-Z])", text) if 40 <= len(sentence) <= 200]


class Words:
    """What the sentences of one transcript are filled with. Filler speaks of the same few files and names, again and again."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.familiar = {name: [self.fresh(name) for _ in range(6)] for name in ("path", "ident")}

    def fresh(self, name: str) -> str:
        chance = self.chance

        def word() -> str:
            return chance.choice(WORDS)

        amounts = (
            "ms",
            " ms",
            " MB",
            "GB",
            " GiB",
            " %",
            " seconds",
            " minutes",
            " requests",
            " days",
            "k rows",
            " retries",
        )
        makers: dict[str, Callable[[], str]] = {
            "word": word,
            "path": lambda: (
                chance.choice(("", "", "/etc/", "/srv/", "./"))
                + "/".join(word() for _ in range(chance.randint(1, 3)))
                + f"/{word()}_{word()}.{chance.choice(EXTENSIONS)}"
            ),
            "ident": lambda: chance.choice(
                (
                    f"{word().title()}{word().title()}{chance.choice(('Handler', 'Store', 'Policy', ''))}",
                    f"{word()}_{word()}_{word()}",
                    f"{word()}.{word()}_{word()}",
                    f"{word()}_{word()}()",
                    f"{word()}{word().title()}",
                )
            ),
            "number": lambda: (
                f"{chance.choice((chance.randint(2, 999), round(chance.uniform(1, 90), 1), f'{chance.randint(1, 9)},{chance.randint(100, 999)}'))}"
                f"{chance.choice(amounts)}"
            ),
            "money": lambda: f"{chance.choice('$€')}{chance.randint(2, 99)},{chance.randint(0, 999):03}",
            "id": lambda: chance.choice(
                (
                    str(uuid.UUID(int=chance.getrandbits(128), version=4)),
                    f"{word()}-{chance.getrandbits(32):08x}",
                    f"{chance.choice(('i', 'vol', 'req'))}-{chance.getrandbits(48):012x}",
                )
            ),
            "hash": lambda: f"{chance.getrandbits(160):040x}"[: chance.choice((7, 10, 40))],
            "ticket": lambda: f"{chance.choice(('OPS', 'PAY', 'CORE', 'DATA', 'WEB'))}-{chance.randint(100, 9999)}",
            "version": lambda: (
                f"{chance.choice(('', 'v'))}{chance.randint(0, 9)}.{chance.randint(0, 30)}.{chance.randint(0, 20)}"
            ),
            "flag": lambda: chance.choice((f"--{word()}-{word()}", f"{word().upper()}_{word().upper()}")),
            "code": lambda: str(chance.choice((1, 2, 3, 70, 126, 137, 139))),
            "host": lambda: chance.choice(
                (
                    f"{word()}-{chance.randint(1, 9)}.{word()}.internal",
                    f"10.{chance.randint(0, 255)}.{chance.randint(0, 255)}.7:{chance.randint(1024, 9999)}",
                )
            ),
            "url": lambda: f"https://{word()}.example.com/{word()}/v{chance.randint(1, 4)}",
            "date": lambda: chance.choice(
                (
                    f"2026-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}",
                    f"{chance.choice(('March', 'May', 'October'))} {chance.randint(1, 28)}",
                )
            ),
            "tool": lambda: chance.choice(TOOLS[::2]),
            "tool2": lambda: chance.choice(TOOLS[1::2]),
            "person": lambda: chance.choice(PEOPLE),
            "error": lambda: chance.choice(ERRORS),
            "count": lambda: str(chance.randint(3, 900)),
            "seconds": lambda: f"{chance.uniform(0.2, 40):.2f}",
        }
        return makers[name]()

    def usual(self, name: str) -> str:
        return (
            self.chance.choice(self.familiar[name])
            if name in self.familiar and self.chance.random() < 0.6
            else self.fresh(name)
        )

    def say(self, template: str) -> str:
        """A sentence of filler."""
        return re.sub(r"\{(\w+)\}", lambda slot: self.usual(slot[1]), template)

    def plant(self, phrasing: Phrasing) -> tuple[str, tuple[str, ...]]:
        """A sentence with a fact, and the texts that must be found together."""
        template, needed = phrasing
        slots = {name: self.fresh(name) for name in re.findall(r"\{(\w+)\}", template)}
        return template.format(**slots), tuple(slots.get(name, name) for name in needed)

    def prose(self) -> list[str]:
        said = [
            self.chance.choice(OPENERS) + self.say(self.chance.choice(FILLER)) for _ in range(self.chance.randint(3, 9))
        ]
        return [
            self.chance.choice(book()) if self.chance.random() < 0.25 else sentence + self.chance.choice(TAILS)
            for sentence in said
        ]

    def code(self) -> list[str]:
        """Some lines of a real module."""
        lines = inspect.getsource(self.chance.choice(SOURCES)).splitlines()
        start = self.chance.randrange(len(lines) - 60)
        return lines[start : start + self.chance.randint(15, 60)]

    def output(self) -> list[str]:
        """What a tool printed: a log, code, a listing, test results, data."""
        chance = self.chance
        if chance.random() < 0.3:
            return self.code()
        lines = range(chance.randint(6, 30))
        clock = chance.randint(0, 80_000)
        kinds: tuple[Callable[[int], str], ...] = (
            lambda n: (
                f"2026-02-{clock % 27 + 1:02}T{clock // 3600:02}:{clock // 60 % 60:02}:{n:02}.{chance.randint(0, 999):03}Z "
                f"{chance.choice(('INFO', 'INFO', 'INFO', 'DEBUG', 'WARN'))} {self.usual('word')}: request {chance.getrandbits(32):08x} "
                f"took {chance.randint(1, 900)} ms status=200"
            ),
            lambda n: chance.choice(
                (
                    f"    {self.usual('word')} = {self.usual('ident').removesuffix('()')}({self.usual('word')}, {chance.randint(0, 64)})",
                    f"    if {self.usual('word')} is None:",
                    f"        return {self.usual('word')}.{self.usual('word')}",
                    f"def {self.usual('word')}_{self.usual('word')}(self, {self.usual('word')}: str) -> None:",
                    f"    # {self.usual('word')} comes first, then the {self.usual('word')}",
                    "",
                )
            ),
            lambda n: (
                f"-rw-r--r-- 1 app app {chance.randint(90, 99_999):6} Feb {n % 28 + 1:2} 09:{n % 60:02} {self.usual('path')}"
            ),
            lambda n: (
                f"tests/test_{self.usual('word')}.py::test_{self.usual('word')}_{self.usual('word')} PASSED [{n:3}%]"
            ),
            lambda n: (
                f'  {{"id": {chance.randint(1, 99_999)}, "name": "{self.usual("word")}", "ok": true, "ms": {chance.randint(1, 500)}}},'
            ),
            lambda n: f"{self.usual('path')}:{chance.randint(1, 400)}:    {self.usual('ident')}",
        )
        return [line(n) for line in (chance.choice(kinds),) for n in lines]


@dataclass(frozen=True)
class Transcript:
    """Messages, the texts that must be kept, and for each planted fact its phrasing and the texts that must be found together."""

    messages: tuple[Message, ...]
    keep: tuple[str, ...]
    planted: tuple[Phrasing, ...]

    @property
    def size(self) -> int:
        return sum(len(message.text) for message in self.messages)


def transcript(chance: random.Random, phrasings: Sequence[Phrasing]) -> Transcript:
    """A conversation of 10 to 40 KB between a user, an agent and its tools, with a fact for every KB or so."""
    words, size = Words(chance), chance.randint(10_000, 40_000)
    said: list[tuple[Speaker, list[str]]] = [
        ("user", [words.say("Please go through the {word} service and tidy it up."), *words.prose()])
    ]
    length = 0
    while length < size:
        speaker: Speaker = chance.choices(("user", "assistant", "tool"), (2, 5, 4))[0]
        said.append((speaker, words.output() if speaker == "tool" else words.prose()))
        length += sum(len(sentence) + 1 for sentence in said[-1][1])
    chosen = chance.sample(phrasings, min(size // 1200, len(phrasings)))
    facts = [words.plant(phrasing) for phrasing in chosen]
    middle = list(range(len(said) * 5 // 100 + 1, len(said) * 90 // 100))
    for sentence, _ in facts:
        # One in six stands in what a tool printed, as it would in a file that was read.
        wanted = [index for index in middle if (said[index][0] == "tool") == (chance.random() < 1 / 6)] or middle
        speaker, sentences = said[chance.choice(wanted)]
        sentences.insert(
            chance.randint(1, len(sentences) - 1),
            f"# {sentence}" if speaker == "tool" and chance.random() < 0.5 else sentence,
        )
    messages = [
        Message(
            id=f"m{number}",
            speaker=speaker,
            text=("\n" if speaker == "tool" else " ").join(sentences),
            at=float(number),
        )
        for number, (speaker, sentences) in enumerate(said)
    ]
    pins = [words.say(template) for template in chance.sample(FILLER, 3)]
    for number, text in enumerate(pins):
        messages.insert(
            chance.randint(1, len(messages) - 1), Message(id=f"p{number}", speaker="user", text=text, pinned=True)
        )
    keep = tuple(words.fresh(name) for name in ("path", "id", "number"))
    return Transcript(
        tuple(messages), keep, tuple((phrasing[0], needed) for phrasing, (_, needed) in zip(chosen, facts, strict=True))
    )


@dataclass
class Share:
    """How many there were, and how many of them the summaries have."""

    all: int = 0
    kept: int = 0

    def add(self, kept: bool) -> None:
        self.all += 1
        self.kept += kept

    @property
    def value(self) -> float:
        return self.kept / self.all


@dataclass
class Kept:
    """What the summaries of some transcripts have of what was pinned, of what was planted, and of that what was held out."""

    pinned: Share
    planted: Share
    held_out: Share


def accuracy(seed: int, phrasings: Sequence[Phrasing] = (*PHRASINGS, *HELD_OUT)) -> Kept:
    """What the deterministic summariser keeps of `TRANSCRIPTS` transcripts, at `SHARE` of their size in tokens."""
    kept, chance, counter = Kept(Share(), Share(), Share()), random.Random(seed), Counter()
    unseen = {phrasing[0] for phrasing in HELD_OUT}
    for _ in range(TRANSCRIPTS):
        made = transcript(chance, phrasings)
        most = int(SHARE * sum(counter.count(message.text) for message in made.messages))
        summary = Deterministic(counter).text(
            SummaryRequest(messages=made.messages, target_tokens=most, keep=made.keep)
        )
        if counter.count(summary) > most:
            raise AssertionError(f"seed {seed}: a summary is larger than {most} tokens")
        lines = summary.splitlines()
        for text in (*made.keep, *(message.text for message in made.messages if message.pinned)):
            kept.pinned.add(not missing([text], summary))
        for template, needed in made.planted:
            found = any(needed[0] in line and not missing(needed, line) for line in lines)
            kept.planted.add(found)
            if template in unseen:
                kept.held_out.add(found)
    return kept


def counting(rounds: int) -> list[Row]:
    """How fast a megabyte is counted, of prose and code, and of base64, beside the tokenizer by itself."""
    chance, counter = random.Random(1), Counter()
    prose = "\n".join(message.text for _ in range(50) for message in transcript(chance, PHRASINGS).messages)[:MEGABYTE]
    data = base64.b64encode(chance.randbytes(MEGABYTE * 3 // 4)).decode()
    bare = tokens.encoding()
    rows = []
    for what, text, bound in (("prose, code and logs", prose, BOUND_COUNT_S), ("base64 in one line", data, None)):
        size = counter.count(text)

        def alone(text: str = text) -> None:
            for at in range(0, len(text), tokens.SLICE):
                bare.encode_ordinary(text[at : at + tokens.SLICE])

        base, took = clocked(rounds, alone, partial(Counter().count, text))
        note = f"{size / median(took) / 1e6:.1f} million tokens a second"
        more = {"must": bound, "bound_on": "value", "baseline_name": "tiktoken alone", "note": note}
        rows.append(Row.of(f"count 1 MB of {what}", "", took, "s", base, **more))
        if bound is not None:
            rates = [size / median(samples) for samples in (took, base)]
            rate = Row(
                "tokens counted a second",
                "",
                rates[0],
                "tokens/s",
                rates[1],
                better="higher",
                baseline_name="tiktoken alone",
            )
            rate.gated, rate.note = False, "the first figure the other way round: not compared twice"
            rows.append(rate)
    return rows


def summarising(rounds: int) -> Row:
    """Seconds to summarise a megabyte of messages, beside counting it."""
    chance, messages, size = random.Random(1), list[Message](), 0
    while size < MEGABYTE:
        made = transcript(chance, PHRASINGS)
        size += made.size
        messages += [message.model_copy(update={"pinned": False}) for message in made.messages]
    request = SummaryRequest(messages=tuple(messages), target_tokens=20_000)
    text = "\n".join(message.text for message in messages)
    base, took = clocked(rounds, lambda: Counter().count(text), lambda: Deterministic().text(request))
    return Row.of(
        "summarise 1 MB without a model",
        "",
        took,
        "s",
        base,
        must=BOUND_SUMMARY_S,
        bound_on="value",
        baseline_name="counting it",
    )


def keeping(seeds: Sequence[int]) -> list[Row]:
    """What the summaries keep, of all seeds together; the bound is held by each of them."""
    found: dict[str, list[Share]] = {}
    for seed in seeds:
        kept, plain = accuracy(seed), accuracy(seed, PLAIN).planted
        for what, share in (
            ("pinned", kept.pinned),
            ("planted facts", kept.planted),
            ("of these, phrasings held out", kept.held_out),
            ("facts in plain words", plain),
        ):
            found.setdefault(what, []).append(share)
    rows = []
    for what, shares in found.items():
        bound = BOUND_PINNED if what == "pinned" else BOUND_PLANTED
        worst = min(shares, key=lambda share: share.value)
        note = f"the worst of the seeds {', '.join(map(str, seeds))}" if len(seeds) > 1 else f"seed {seeds[0]}"
        name = f"kept at {SHARE:.0%} of the size: {what}"
        rows.append(
            Row(name, "", worst.kept, "facts", worst.all, bound, better="higher", baseline_name="all", note=note)
        )
    return rows


INTRO = """\
How fast text is counted, and how much of what matters is kept by the summariser that needs no model: transcripts are made from a
seed, with facts planted in them, and summarised to a fifth of their size. Made by `make bench`, with another seed each time;
{transcripts} transcripts a seed."""


def measure(quick: bool) -> Report:
    seeds = [QUICK_SEED] if quick else [secrets.randbits(32) for _ in range(3)]
    rows = [*counting(15), summarising(5), *keeping(seeds)]
    return Report("context", "Contexts", INTRO.format(transcripts=TRANSCRIPTS), rows, quick)


if __name__ == "__main__":
    command(measure, __doc__)
