"""Keeps the context of executions within their model's window: counts before each request, and summarises what would
not fit.

All tokens here are those that are counted here (o200k): a model that counts more of them has a window that is so much
smaller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import field, replace
from typing import Any

from go_ent.dataclass import dataclass
from go_ent.engine.context.chain import KIND, Chain, digest_of
from go_ent.engine.context.counting import Counter
from go_ent.engine.context.material import apply, content_of, left_of, message_of, outputs_of, said_by
from go_ent.engine.context.model_windows import Windows
from go_ent.engine.context.models import Message, Purse, Summarizer, SummaryLink
from go_ent.engine.context.shorten import Condensed, summarize_context
from go_ent.engine.context.summarizers import ModelSummarizer
from go_ent.engine.context.summary_job import Asked
from go_ent.engine.context.task_material import cut, loose_of, shares, told
from go_ent.engine.core.concurrency import to_the_end
from go_ent.engine.core.config import ContextConfig
from go_ent.engine.core.errors import StorageFailed
from go_ent.engine.core.step import Step
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.prompts.cutting import share
from go_ent.engine.prompts.files import FilePart
from go_ent.engine.prompts.render import FRAME, HEADING, KEPT, KINDS, SECTION

MARKER = 30  # tokens of what is said about a summary
LEAST = 500  # tokens that material has, as long as the window has them
AROUND = FRAME + SECTION * len(KINDS)  # tokens of what a prompt says about material
TITLE = HEADING + 20  # and about each text
MOST_FILES = 8  # that are summarised for one prompt, the largest; each may cost a request
LEAST_OF_FILE = 200  # tokens, below which a summary of a file says nothing
AT_ONCE = 2  # texts of code: each keeps a thread busy
STEP = 500  # tokens: summaries of files come in such sizes, so that the next step can use the same
PURPOSES = {
    "tool": "the file {}: what it is, and what is in it, for somebody who works with it",
    "user": "what somebody is told who does a task: all that matters for doing it",
}
SCOPES = {"tool": "the file {}", "user": "the context of the task"}  # else it is somebody's output


@dataclass(frozen=True, slots=True)
class Room:
    """What a prompt may take: the window without what is kept for the answer, and what is left of that for material.

    `over` is what the task, its role and its skills alone are beyond the threshold.
    """

    window: int
    material: int
    reserve: int = 0
    over: int = 0


@dataclass(frozen=True, slots=True)
class Fitted:
    """A step whose material fits: some of it may stand in the summary now. `notes` say what was done."""

    step: Step
    adjustments: tuple[str, ...]
    summary: str = ""
    notes: tuple[str, ...] = ()
    files: tuple[FilePart, ...] = ()


@dataclass(slots=True)
class RecordedContext:
    """The context of one execution, as its record has it."""

    held: OwnedExecution
    links: list[SummaryLink] = field(default_factory=list)
    read: bool = False
    counts: dict[str, int] = field(default_factory=dict)  # the tokens of its messages
    making: dict[str, asyncio.Lock] = field(default_factory=dict)  # by what is summarised: each once
    asked: Asked = field(default_factory=Asked)


class Keeper:
    """Of one engine. `summarizers` are made anew for each purse: what they cost is taken from there."""

    def __init__(
        self, config: ContextConfig, counter: Counter, summarizers: Callable[[Purse, str | None], Sequence[Summarizer]]
    ) -> None:
        self.config = config
        self.counter = counter
        self.windows = Windows(config.windows, config.default_window)
        self._summarizers = summarizers
        self._gate = asyncio.Semaphore(AT_ONCE)

    def counted(self, tokens: int, model: str | None) -> int:
        """What that model would count."""
        return tokens if model is None else int(tokens * self.counter.ratio(model))

    def fill(self, step: str, model: str | None, tokens: int) -> dict[str, Any]:
        """How full a context is, for the record."""
        return {"step": step, "tokens": tokens, "window": self.windows.window(model).tokens}

    def window_of(self, model: str | None) -> int:
        """A model's window, in tokens as they are counted here. A report is never believed that there is more room."""
        return int(self.windows.window(model).tokens / self._more(model))

    def _more(self, model: str | None) -> float:
        return 1.0 if model is None else max(1.0, self.counter.ratio(model))

    def room(self, model: str | None, alone: int, threshold: float | None = None) -> Room:
        """What is left for material beside a prompt of *alone* tokens, for that model."""
        window = self.window_of(model)
        reserve = min(int(self.config.reserve_tokens / self._more(model)), window // 4)
        usable = window - reserve
        left = min(int(window * (threshold or self.config.threshold)), usable) - alone
        return Room(usable, max(left, min(LEAST, usable - alone), 0), reserve, max(0, -left))

    async def lighten(
        self, context: RecordedContext | None, step: Step, room: Room, purse: Purse | None
    ) -> tuple[Step, list[str]]:
        """A step whose own texts are too much, with those in short that are not its words: its context, and outputs
        that stand in them.

        Without a record, or switched off, they are cut. Also what was done.
        """
        texts = await asyncio.to_thread(loose_of, step, self.counter.count)
        sizes = shares(texts, room.over)
        notes: list[str] = []
        if context is not None and purse is not None and self.config.enabled:
            making = _Fitting(self, context, room, purse, step.task.description)
            over = [one for one in texts if one.id in sizes]
            try:
                short = await _together(making.short(one, sizes[one.id], KEPT) for one in over)
            except StorageFailed as error:
                notes.append(f"nothing was summarised: {error}")
            else:
                return told(step, texts, {one.id: one.text for one in short}), making.notes
        step, cuts = await asyncio.to_thread(cut, step, texts, sizes)
        return step, [*notes, *cuts]

    async def fit(
        self,
        context: RecordedContext,
        step: Step,
        adjustments: Sequence[str],
        room: Room,
        *,
        purse: Purse,
        files: Sequence[FilePart] = (),
    ) -> Fitted:
        """The step, with its material within the room: what is too long as summaries, and what is still too much as
        one.

        What can't be summarised is as it was: the prompt cuts it.
        """
        as_it_was = Fitted(step, tuple(adjustments), files=tuple(files))
        if not self.config.enabled or room.material < LEAST:
            return as_it_was
        try:
            return await self._fit(
                context, step, adjustments, replace(room, material=room.material - AROUND), purse, files
            )
        except StorageFailed as error:
            return replace(as_it_was, notes=(f"nothing was summarised: {error}",))

    async def _fit(
        self,
        context: RecordedContext,
        step: Step,
        adjustments: Sequence[str],
        room: Room,
        purse: Purse,
        files: Sequence[FilePart],
    ) -> Fitted:
        making = _Fitting(self, context, room, purse, step.task.description)
        texts = [message_of("file", file.path, content_of(file)) for file in files if not file.note]
        contents = await self.sized(context, texts)
        wanted = sum(message.tokens for message in contents)
        making.room = replace(room, material=max(LEAST // 2, room.material - min(wanted, room.material // 2)))
        feedback = [message_of("feedback", str(number), text) for number, text in enumerate(adjustments, 1)]
        outputs = outputs_of("previous", step.previous) + outputs_of("dependencies", step.dependencies)
        messages = await self.sized(context, [*outputs, *feedback])
        messages = await making.within(_pinned(messages, making.room.material // 2))
        now = {message.id: message.text for message in messages}
        making.room = room
        shown = await making.files(contents, room.material - sum(message.tokens for message in messages))
        return Fitted(
            replace(
                step,
                previous=left_of("previous", step.previous, now),
                dependencies=left_of("dependencies", step.dependencies, now),
            ),
            tuple(now[one.id] for one in feedback if one.id in now),
            "\n\n".join(message.text for message in messages if message.speaker == "summary"),
            tuple(making.notes),
            tuple(shown.get(file.path, file) for file in files),
        )

    async def summarize(
        self,
        context: RecordedContext,
        messages: Sequence[Message],
        *,
        purpose: str,
        purse: Purse,
        model: str | None = None,
    ) -> SummaryLink | None:
        """Summarise a context now, whether or not it would fit; the link, or None if there is nothing to be made
        shorter.
        """
        async with context.making.setdefault("by hand", asyncio.Lock()):  # who asks twice at once has it once
            counted = apply(await self.sized(context, messages), await self.links(context))
            total = sum(message.tokens for message in counted)
            making = _Fitting(
                self,
                context,
                Room(self.windows.window(None).tokens, max(LEAST, total // 3)),
                purse,
                purpose,
                model=model,
            )
            return (await making.condense(counted, last=0)).link

    async def shorten(self, context: RecordedContext, text: str, most: int, purse: Purse) -> str:
        """A text in at most *most* tokens: as it is, or a summary of it, which is on record with what it stands for."""
        room = Room(self.windows.window(None).tokens, most)
        making = _Fitting(self, context, room, purse, "")
        async with self._gate:
            return (
                (await making.condense([message_of("text", "", text)], last=0, scope="a text of the code"))
                .messages[0]
                .text
            )

    def summarizers(self, purse: Purse, model: str | None) -> Sequence[Summarizer]:
        return self._summarizers(purse, model) if self.config.enabled else ()

    def request_window(self, summarizers: Sequence[Summarizer], most: int) -> int:
        """What each of the summarisers can read at once. A runtime's own model, if none is named, may be any: no
        more than *most*.
        """
        models = [one.window for one in summarizers if isinstance(one, ModelSummarizer)]
        known = [window for window in models if window is not None]
        return min([*known, *([] if known and None not in models else [self.windows.window(None).tokens, most])])

    async def keep(self, context: RecordedContext, made: Condensed) -> SummaryLink | None:
        """On disk, and on record, before it is used."""
        if made.link is None:
            return None
        link = await to_the_end(_write, context.held, made.link, made.replaced)
        context.links.append(link)
        return link

    async def links(self, context: RecordedContext, scope: str = "") -> list[SummaryLink]:
        """The summaries of that scope that were made so far; without one, of the context itself."""
        if not context.read:
            context.links, context.read = await asyncio.to_thread(_chain(context.held).links), True
        return [link for link in context.links if link.scope == scope]

    async def sized(self, context: RecordedContext, messages: Iterable[Message]) -> list[Message]:
        """The messages, with their tokens: those of a prompt's words around each included. Each is counted once."""
        found = list(messages)
        if new := [one for one in found if one.id not in context.counts]:
            counts = await asyncio.to_thread(lambda: [self.counter.count(one.text) for one in new])
            context.counts |= {one.id: count + TITLE for one, count in zip(new, counts, strict=True)}
        return [one.model_copy(update={"tokens": context.counts[one.id]}) for one in found]


class _Fitting:
    """One prompt in the making: what it may take, whose money it is, and what was done so far."""

    def __init__(
        self, keeper: Keeper, context: RecordedContext, room: Room, purse: Purse, purpose: str, model: str | None = None
    ) -> None:
        self.room = room
        self.notes: list[str] = []
        self._keeper, self._context, self._purse, self._purpose, self._model = keeper, context, purse, purpose, model
        self._work = context.held.state.work

    async def within(self, messages: Sequence[Message]) -> list[Message]:
        """A context within the room: long outputs as summaries, and if it is still too much one summary in place of
        the older part.
        """
        links = await self._keeper.links(self._context)
        now = apply(messages, links)
        most = min(self._keeper.config.pass_tokens, self.room.material)
        long = [one for one in now if one.tokens > most and one.speaker == "assistant"]
        short = await _together(self.short(one, most, KEPT) for one in long)
        by_id = {one.id: one for one in short}
        now = apply([by_id.get(one.id, one) for one in now], links)
        if sum(message.tokens for message in now) <= self.room.material:
            return now
        # Two steps with the same context: the second finds the summary of the first.
        async with self._context.making.setdefault(f"context {digest_of(now)}", asyncio.Lock()):
            now = apply(now, await self._keeper.links(self._context))
            if sum(message.tokens for message in now) > self.room.material:
                now = list((await self.condense(now)).messages)
        return now

    async def files(self, files: Sequence[Message], left: int) -> dict[str, FilePart]:
        """Those of the files that are larger than their share of what is *left*, as summaries. Of many, the largest."""
        shares = share([file.tokens for file in files], left)
        over = [
            (file, most)
            for file, most in zip(files, shares, strict=True)
            if most < file.tokens and most - TITLE >= LEAST_OF_FILE
        ]
        over.sort(key=lambda pair: -pair[0].tokens)
        sizes = [
            max(LEAST_OF_FILE, most - most % STEP) if most > STEP else most - TITLE for _, most in over[:MOST_FILES]
        ]
        texts = await _together(
            self.short(file, size, f"in {file.source}") for (file, _), size in zip(over, sizes, strict=False)
        )
        return {file.source: FilePart(file.source, text.text) for (file, _), text in zip(over, texts, strict=False)}

    async def short(self, message: Message, most: int, where: str) -> Message:
        """A summary in place of a message, made once and kept. It says where the whole is."""
        scope = SCOPES.get(message.speaker, "the output of {}").format(message.source)
        purpose = PURPOSES.get(message.speaker, "what {} came to, for those who continue it").format(message.source)
        async with self._context.making.setdefault(f"{scope} {message.digest}", asyncio.Lock()):
            before = await self._keeper.links(self._context, scope)
            link = next(
                (one for one in before if one.digest == digest_of([message]) and one.tokens_after + MARKER <= most),
                None,
            )
            if link is None:
                room = replace(self.room, material=most - MARKER)
                made = await self._summary([message], room, purpose, last=0, scope=scope)
                link = await self._keeper.keep(self._context, made)
        if link is None:
            return message
        self._note(link)
        text = f"{link.summary}\n[a summary of {link.tokens_before} tokens; the whole is {where}]"
        return message.model_copy(update={"text": text, "tokens": link.tokens_after + MARKER})

    async def condense(self, messages: Sequence[Message], *, last: int | None = None, scope: str = "") -> Condensed:
        """One summary in place of all but the last messages, and those that are pinned."""
        made = await self._summary(messages, self.room, self._purpose, last=last, scope=scope)
        link = await self._keeper.keep(self._context, made)
        if link is None:
            return made
        self._note(link)
        return replace(made, link=link)

    async def _summary(
        self, messages: Sequence[Message], room: Room, purpose: str, *, last: int | None, scope: str
    ) -> Condensed:
        keeper = self._keeper
        await asyncio.to_thread(_chain(self._context.held).prepare)  # before anybody is paid for what can't be kept
        summarizers = keeper.summarizers(self._purse, self._model)
        return await summarize_context(
            messages,
            target_tokens=room.material,
            window_tokens=room.window,
            summarizers=summarizers,
            counter=keeper.counter,
            purpose=purpose,
            last=keeper.config.last if last is None else last,
            timeout_s=keeper.config.timeout_s,
            request_tokens=keeper.request_window(summarizers, room.window),
            scope=scope,
            said=said_by(self._work, context=scope != SCOPES["user"]),
            asked=self._context.asked,
        )

    def _note(self, link: SummaryLink) -> None:
        what = link.scope or "what came before"
        self.notes.append(f"{what} was summarised by {link.by}: {link.tokens_before} tokens became {link.tokens_after}")


async def _together(works: Iterable[Coroutine[Any, Any, Message]]) -> list[Message]:
    """What each comes to, in their order. If one can't, the others have ended before that is told."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        if left := [task for task in tasks if not task.done()]:
            for task in left:
                task.cancel()
            await asyncio.wait(left)


def _chain(held: OwnedExecution) -> Chain:
    return Chain(held.attachments(KIND))


def _write(held: OwnedExecution, link: SummaryLink, replaced: Sequence[Message]) -> SummaryLink:
    link = _chain(held).add(link, replaced)
    told = link.model_dump(
        mode="json", include={"number", "scope", "by", "model", "tokens_before", "tokens_after", "cost_usd"}
    )
    try:
        held.append("summary", told)
    except OSError as error:
        raise StorageFailed(f"a summary can't be recorded: {error.strerror or error}") from None
    return link


def _pinned(messages: Sequence[Message], most: int) -> list[Message]:
    """What the user said is carried word for word: from the newest, as long as *most* tokens hold it."""
    pinned, left = list(messages), most
    for at in range(len(pinned) - 1, -1, -1):
        if pinned[at].speaker == "user":
            left -= pinned[at].tokens
            if left < 0:
                break
            pinned[at] = pinned[at].model_copy(update={"pinned": True})
    return pinned
