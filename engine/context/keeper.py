"""Keeps the context of executions within their model's window: counts before each request, and summarises what would not fit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.config import ContextConfig
from engine.context.chain import Chain, digest_of, summary_id
from engine.context.condense import Condensed, summarize_context
from engine.context.counting import Counter
from engine.context.models import Link, Message, Summarizer
from engine.context.windows import Windows
from engine.executions.held import Held
from engine.strategies.step import Output, Step

MARKER = 30  # tokens of what is said about a summary
LEAST = 500  # tokens that material has, however small the window is


@dataclass(frozen=True, slots=True)
class Room:
    """What a prompt may take: the window, and what is left of it for material before summarising begins."""

    window: int
    material: int


@dataclass(frozen=True, slots=True)
class Fitted:
    """A step whose material fits: some of it may stand in the summary now. `notes` say what was done."""

    step: Step
    adjustments: tuple[str, ...]
    summary: str = ""
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Recorded:
    """The context of one execution, as its record has it."""

    held: Held
    links: list[Link] = field(default_factory=list)
    read: bool = False
    making: dict[str, asyncio.Lock] = field(default_factory=dict)  # by message: each output is summarised once


class Keeper:
    """Of one engine. `summarizers` are made anew for each execution: what they cost is booked there."""

    def __init__(self, config: ContextConfig, counter: Counter, summarizers: Callable[[str, str | None], Sequence[Summarizer]]) -> None:
        self.config = config
        self.counter = counter
        self.windows = Windows(config.windows, config.default_window)
        self._summarizers = summarizers

    def counted(self, tokens: int, model: str | None) -> int:
        """What that model would count."""
        return tokens if model is None else int(tokens * self.counter.ratio(model))

    def room(self, model: str | None, alone: int, threshold: float | None = None) -> Room:
        """What is left for material beside a prompt of *alone* tokens, for that model."""
        window = self.windows.window(model).tokens
        limit = int(window * (threshold or self.config.threshold))
        reserve = min(self.config.reserve_tokens, window // 4)
        return Room(window, max(LEAST, min(limit, window - reserve) - alone))

    async def fit(
        self,
        context: Recorded,
        step: Step,
        adjustments: Sequence[str],
        room: Room,
        *,
        model: str | None,
        summarizer_model: str | None = None,
    ) -> Fitted:
        """The step, with its material within the room: outputs that are too long as summaries, and what is still too much as one."""
        if not self.config.enabled:
            return Fitted(step, tuple(adjustments))
        notes: list[str] = []
        material = [message_of("feedback", str(number), text) for number, text in enumerate(adjustments, 1)]
        material += [message_of("previous", one.source, one.text) for one in step.previous]
        material += [message_of("dependencies", one.source, one.text) for one in step.dependencies]
        links = [link for link in await self._links(context) if not link.scope]
        messages = apply(await asyncio.to_thread(self._counted, material, model), links)
        messages = apply([await self._handed_on(context, one, room, notes, summarizer_model) for one in messages], links)
        if sum(message.tokens for message in messages) > room.material:
            made = await self._condense(context, messages, room, step.task.description, model, summarizer_model)
            messages = list(made.messages)
            if made.link is not None:
                notes.append(_said(made.link))
        now = {message.id: message.text for message in messages}
        return Fitted(
            replace(step, previous=_left("previous", step.previous, now), dependencies=_left("dependencies", step.dependencies, now)),
            tuple(now[one.id] for one in material[: len(adjustments)] if one.id in now),
            "\n\n".join(message.text for message in messages if message.speaker == "summary"),
            tuple(notes),
        )

    async def summarize(self, context: Recorded, messages: Sequence[Message], *, purpose: str, model: str | None = None) -> Link | None:
        """Summarise a context now, whether or not it would fit; the link, or None if there is nothing to be made shorter."""
        links = await self._links(context)
        counted = apply(await asyncio.to_thread(self._counted, messages, None), [link for link in links if not link.scope])
        total = sum(message.tokens for message in counted)
        room = Room(max(total, LEAST * 4), max(LEAST, total // 3))
        made = await self._condense(context, counted, room, purpose, None, model, last=0)
        return made.link

    async def shorten(self, execution_id: str, text: str, most: int) -> str:
        """A text in at most *most* tokens: as it is, or a summary of it. What that costs is booked under the execution."""
        made = await summarize_context(
            await asyncio.to_thread(self._counted, [message_of("text", "", text)], None),
            target_tokens=most,
            window_tokens=self._request_window(None),
            summarizers=self._summarizers(execution_id, None),
            counter=self.counter,
            last=0,
            timeout_s=self.config.timeout_s,
        )
        return made.messages[0].text

    async def _handed_on(self, context: Recorded, message: Message, room: Room, notes: list[str], model: str | None) -> Message:
        """An output as it is handed on: word for word, or a summary of it, made once and kept."""
        most = min(self.config.pass_tokens, room.material)
        if message.tokens <= most or message.speaker != "assistant":
            return message
        async with context.making.setdefault(message.digest, asyncio.Lock()):
            link = await self._summary_of(context, message, most, room, model)
        if link is None:
            return message
        notes.append(_said(link))
        text = f"{link.summary}\n[a summary of {link.tokens_before} tokens; the whole is in the record of this execution]"
        return message.model_copy(update={"text": text, "tokens": link.tokens_after + MARKER})

    async def _summary_of(self, context: Recorded, message: Message, most: int, room: Room, model: str | None) -> Link | None:
        for link in await self._links(context):
            if link.scope == message.source and link.digest == digest_of([message]) and link.tokens_after <= most:
                return link
        made = await summarize_context(
            [message],
            target_tokens=most - MARKER,
            window_tokens=room.window,
            summarizers=self._summarizers(context.held.id, model),
            counter=self.counter,
            purpose=f"what {message.source} came to, for those who go on with it",
            last=0,
            timeout_s=self.config.timeout_s,
            request_tokens=self._request_window(model, room.window),
            scope=message.source,
        )
        return await self._kept(context, made)

    async def _condense(
        self,
        context: Recorded,
        messages: Sequence[Message],
        room: Room,
        purpose: str,
        model: str | None,
        summarizer_model: str | None,
        last: int | None = None,
    ) -> Condensed:
        made = await summarize_context(
            messages,
            target_tokens=room.material,
            window_tokens=room.window,
            summarizers=self._summarizers(context.held.id, summarizer_model),
            counter=self.counter,
            purpose=purpose,
            last=self.config.last if last is None else last,
            timeout_s=self.config.timeout_s,
            model=model,
            request_tokens=self._request_window(summarizer_model, self.windows.window(model).tokens),
        )
        link = await self._kept(context, made)
        return made if link is None else replace(made, link=link)

    def _request_window(self, model: str | None, most: int | None = None) -> int:
        """What a summariser can read at once. A runtime's own model, if none is named, may be any: it gets no more than *most*."""
        named = model or self.config.model
        window = self.windows.window(named).tokens
        return window if named is not None or most is None else min(window, most)

    async def _kept(self, context: Recorded, made: Condensed) -> Link | None:
        """On disk, and on record, before it is used."""
        if made.link is None:
            return None
        link = await asyncio.to_thread(Chain(context.held.folder).add, made.link, made.replaced)
        context.links.append(link)
        told = link.model_dump(mode="json", include={"number", "scope", "by", "model", "tokens_before", "tokens_after", "cost_usd"})
        await asyncio.to_thread(context.held.append, "summary", told)
        return link

    async def _links(self, context: Recorded) -> list[Link]:
        if not context.read:
            context.links, context.read = await asyncio.to_thread(Chain(context.held.folder).links), True
        return context.links

    def _counted(self, messages: Sequence[Message], model: str | None) -> list[Message]:
        return [
            message if message.tokens else message.model_copy(update={"tokens": self.counter.count(message.text, model)})
            for message in messages
        ]


def apply(messages: Sequence[Message], links: Sequence[Link]) -> list[Message]:
    """A context with the summaries that were made of it before, each in the place of what it stands for."""
    now = list(messages)
    for link in links:
        ids = [message.id for message in now]
        if not set(link.replaced) <= set(ids):
            continue
        by_id = dict(zip(ids, now, strict=True))
        if digest_of(by_id[one] for one in link.replaced) != link.digest:
            continue
        at = min(ids.index(one) for one in link.replaced)
        summary = Message(
            id=summary_id(link.replaced, link.digest), speaker="summary", text=link.summary, tokens=link.tokens_after, at=link.at
        )
        now = [summary if place == at else message for place, message in enumerate(now) if place == at or message.id not in link.replaced]
    return now


def message_of(kind: str, source: str, text: str) -> Message:
    """A message of a context: its id is that of its kind, its source and its text."""
    message = Message(id="", speaker="user" if kind == "feedback" else "assistant", text=text, source=source)
    return message.model_copy(update={"id": f"{kind}:{source}:{message.digest[:12]}"})


def _left(kind: str, outputs: Sequence[Output], now: Mapping[str, str]) -> tuple[Output, ...]:
    """The outputs that stand for themselves; one that is a summary by now has no data beside it."""
    left = []
    for output in outputs:
        text = now.get(message_of(kind, output.source, output.text).id)
        if text is not None:
            left.append(output if text == output.text else replace(output, text=text, structured=None))
    return tuple(left)


def _said(link: Link) -> str:
    of = f"the output of {link.scope}" if link.scope else "what came before"
    return f"{of} was summarised by {link.by}: {link.tokens_before} tokens became {link.tokens_after}"
