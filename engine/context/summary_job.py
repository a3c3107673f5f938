"""One summary in the making: in pieces where it must be, checked, and redone until it fits.

What does not fit one request of a summariser's model is cut at natural boundaries and summarised part by part, then the
summaries of the parts are. Whatever a summariser answers, the result has the names that must be in it, and is not
larger than was asked for.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import field

from go_ent.dataclass import dataclass
from go_ent.engine.context.counting import Counter
from go_ent.engine.context.deterministic import Deterministic
from go_ent.engine.context.facts import missing
from go_ent.engine.context.models import Message, Summarizer, Summary, SummaryRequest
from go_ent.engine.context.split import cuts, pieces
from go_ent.engine.context.summarizers import first_that_works, known, may_write
from go_ent.engine.prompts.fences import label

LEAST = 64  # tokens of a summary
PART = 6  # a model is asked for no more than this part of its window
KEEP = 8  # and told what to keep in no more than this part
FRAME, HEADING = 450, 30  # tokens of a request's own words, and of those around each message
LEAST_ROOM = 400  # tokens of material, below which a request is no use
TRIES = 3
LEVELS = 4  # of summaries of summaries, in one go
AT_ONCE = 4
PATIENCE = 2  # failures, after which a summariser is not asked again
MOST_MESSAGES = 2000  # in one request
MOST_BLANKS = 3  # in a name


def also(text: str, names: Sequence[str]) -> str:
    """A text, with what is missing in it put behind it."""
    sentences = [f"- {name}" for name in names if name.count(" ") > MOST_BLANKS]
    short = [name for name in names if name.count(" ") <= MOST_BLANKS]
    said = "\n".join([*sentences, *([f"Also: {', '.join(short)}"] if short else [])])
    return f"{text.rstrip()}\n\n{said}".lstrip() if names else text


def _of(keep: tuple[str, ...], messages: Sequence[Message]) -> tuple[str, ...]:
    said = "\n".join(message.text for message in messages)
    return tuple(name for name in keep if name in said)


@dataclass(frozen=True, slots=True)
class Made:
    """A summary, and what the check put back into it."""

    text: str
    tokens: int
    by: str
    model: str | None
    appended: tuple[str, ...]


@dataclass(slots=True)
class Asked:
    """Who is asked for the summaries of one execution: few at once, so that one that hangs is noticed before all
    wait for it.
    """

    failures: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # since it last worked
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))


class Making:
    """One summary in the making: who was asked, what went wrong, and what that cost."""

    def __init__(
        self,
        summarizers: Sequence[Summarizer],
        counter: Counter,
        window: int,
        purpose: str,
        timeout_s: float,
        asked: Asked | None = None,
    ) -> None:
        self.tried: list[str] = []
        self._costs: list[float | None] = []
        self._sure = Deterministic(counter)
        self._models = []
        for one in summarizers:
            if isinstance(one, Deterministic):
                break
            self._models.append(one)
        self._asked = asked or Asked()
        self._counter, self._window, self._timeout_s = counter, window, timeout_s
        self._purpose = purpose[: window // 8]  # characters: a token has one at the least, mostly

    @property
    def cost_usd(self) -> float | None:
        return known(self._costs)

    async def within(self, messages: Sequence[Message], room: int, keep: tuple[str, ...]) -> Made:
        """The summary with what must be in it, in at most *room* tokens: redone shorter if need be, cut at last."""
        target = room
        for _ in range(TRIES):
            summary, messages = await self._reduced(messages, target, keep)
            made = await asyncio.to_thread(self._checked, summary, keep)
            if made.tokens <= room:
                return made
            self.tried.append(f"{made.by}: {made.tokens} tokens, and there is room for {room}")
            target = max(LEAST // 2, min(target - 1, target * room // made.tokens * 9 // 10))
        long = Message(id="long", speaker="summary", text=summary.text, tokens=made.tokens)
        shorter = await self._surely((long,), room, keep)
        return await asyncio.to_thread(self._cut, summary.model_copy(update={"text": shorter.text}), keep, room)

    def _checked(self, summary: Summary, keep: tuple[str, ...]) -> Made:
        absent = tuple(missing(list(keep), summary.text))
        text = also(summary.text.strip() or "(nothing)", absent)
        return Made(text, self._counter.count(text), summary.by, summary.model, absent)

    def _cut(self, summary: Summary, keep: tuple[str, ...], room: int) -> Made:
        made, most = self._checked(summary, keep), room
        while made.tokens > room and most > 0:
            most -= made.tokens - room
            text = next(cuts(summary.text, most), "") if most > 0 else ""
            made = self._checked(summary.model_copy(update={"text": text}), keep)
        return made

    async def _reduced(
        self, messages: Sequence[Message], target: int, keep: tuple[str, ...]
    ) -> tuple[Summary, Sequence[Message]]:
        """The summary of messages, and what it was made of in the end: themselves, or summaries of parts of them."""
        wanted = min(target, max(LEAST, self._window // PART))
        largest = max(wanted, LEAST, self._window // (2 * PART))  # that is asked for in one request
        asked, told = await asyncio.to_thread(self._asked_for, keep)
        room = (self._window - may_write(largest) - FRAME - told) * 95 // 100
        for _ in range(LEVELS):
            if not self._order()[:-1]:
                break
            if room < LEAST_ROOM:
                self.tried.append(f"a window of {self._window} tokens has no room for a request")
                break
            batches = await asyncio.to_thread(self._batches, messages, room)
            each = wanted if len(batches) == 1 else max(LEAST, min(room // len(batches) - HEADING, room // 3, largest))
            parts = await self._mapped(batches, each, asked)
            if all(part.by == self._sure.name for part in parts):
                break  # what no model had a part in is better done at once, and in all the room that there is
            if len(parts) == 1:
                return parts[0], messages
            messages = await asyncio.to_thread(self._messages, parts)
        return await self._surely(messages, target, keep), messages

    def _asked_for(self, keep: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
        """What of *keep* a model is asked to keep, and the tokens of that and of the purpose. The check puts back
        the others.
        """
        asked, used = [], 0
        for one in keep:
            used += self._counter.count(one) + 1
            if used > self._window // KEEP:
                break
            asked.append(one)
        return tuple(asked), self._counter.count("\n".join((self._purpose, *asked)))

    async def _mapped(
        self, batches: Sequence[tuple[Message, ...]], target: int, keep: tuple[str, ...]
    ) -> list[Summary]:
        async def one(batch: tuple[Message, ...]) -> Summary:
            async with self._asked.gate:
                return await self._ask(batch, target, await asyncio.to_thread(_of, keep, batch))

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(batch)) for batch in batches]
        return [task.result() for task in tasks]

    def _messages(self, parts: Sequence[Summary]) -> list[Message]:
        return [
            Message(id=f"part-{at}", speaker="summary", text=part.text, tokens=self._counter.count(part.text))
            for at, part in enumerate(parts, 1)
        ]

    async def _ask(self, messages: tuple[Message, ...], target: int, keep: tuple[str, ...]) -> Summary:
        order = self._order()
        summary, tried = await first_that_works(order, self._request(messages, target, keep), self._timeout_s)
        for one in order[: len(tried)]:
            self._asked.failures[one.name] += 1
        if len(tried) < len(order) - 1:
            self._asked.failures[order[len(tried)].name] = 0
        self.tried += tried
        self._costs.append(summary.cost_usd)
        return summary

    async def _surely(self, messages: Sequence[Message], target: int, keep: tuple[str, ...]) -> Summary:
        summary = await self._sure.summarize(self._request(messages, target, keep))
        self._costs.append(summary.cost_usd)
        return summary

    def _request(self, messages: Sequence[Message], target: int, keep: tuple[str, ...]) -> SummaryRequest:
        return SummaryRequest(messages=tuple(messages), target_tokens=target, keep=keep, purpose=self._purpose)

    def _order(self) -> list[Summarizer]:
        return [*(one for one in self._models if self._asked.failures[one.name] < PATIENCE), self._sure]

    def _batches(self, messages: Sequence[Message], room: int) -> list[tuple[Message, ...]]:
        """The messages in requests of *room* tokens, in their order; one that is larger, in pieces."""
        batches: list[tuple[Message, ...]] = []
        batch: list[Message] = []
        used = 0
        for message in messages:
            heading = HEADING + self._counter.count(label(message.source))
            for part in self._parts(message, max(LEAST, room - heading)):
                if batch and (used + part.tokens + heading > room or len(batch) == MOST_MESSAGES):
                    batches.append(tuple(batch))
                    batch, used = [], 0
                batch.append(part)
                used += part.tokens + heading
        return [*batches, tuple(batch)] if batch else batches

    def _parts(self, message: Message, most: int) -> list[Message]:
        if message.tokens <= most:
            return [message]
        texts = pieces(message.text, most)
        sources = [f"{message.source[:200]} part {at} of {len(texts)}".lstrip() for at in range(1, len(texts) + 1)]
        return [
            message.model_copy(update={"source": source, "text": text, "tokens": self._counter.count(text)})
            for source, text in zip(sources, texts, strict=True)
        ]
