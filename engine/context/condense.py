"""Making a context shorter: pinned messages and the last ones stay as they are, one summary stands for the rest."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from engine.context.chain import digest_of, summary_id
from engine.context.counting import Counter
from engine.context.facts import extract, missing
from engine.context.making import LEAST, Making, also
from engine.context.models import Link, Message, Summarizer
from engine.errors import EngineError
from engine.prompts.fences import one_line

SHARE = 4  # a summary gets this part of the target, before the last messages do
MOST_TOLD = 10
_WORDS = re.compile(r"\w+")


class ContextTooLarge(EngineError):
    """Raised when the pinned messages alone leave no room in the window; it says which are how large."""

    def __init__(self, pinned: Sequence[Message], window: int) -> None:
        largest = sorted(pinned, key=lambda message: -message.tokens)
        told = [f"{one_line(one.id)}{f' ({one_line(one.source)})' if one.source else ''}: {one.tokens}" for one in largest[:MOST_TOLD]]
        more = f", and {len(largest) - MOST_TOLD} more" if len(largest) > MOST_TOLD else ""
        total = sum(message.tokens for message in pinned)
        super().__init__(f"the pinned messages take {total} tokens of a window of {window}: {', '.join(told)}{more}")


class PromptTooLarge(EngineError):
    """Raised when what must be said word for word does not fit the model's window."""

    def __init__(self, tokens: int, window: int, model: str | None) -> None:
        super().__init__(
            f"the prompt is {tokens} tokens long, and {model or 'the model'} takes {window}: the task, its role and its skills are "
            "never cut; make them shorter, give less as files, or name a model with a larger window"
        )


@dataclass(frozen=True, slots=True)
class Condensed:
    """The shorter context, the link that tells of the summary in it, and what that replaced. No link: nothing was replaced."""

    messages: tuple[Message, ...]
    link: Link | None
    replaced: tuple[Message, ...] = ()


async def summarize_context(
    messages: Sequence[Message],
    *,
    target_tokens: int,
    window_tokens: int,
    summarizers: Sequence[Summarizer],
    counter: Counter,
    purpose: str = "",
    last: int = 4,
    timeout_s: float,
    model: str | None = None,
    request_tokens: int | None = None,
    scope: str = "",
) -> Condensed:
    """The context within *target_tokens*: pinned messages and the *last* ones word for word, a summary in place of the rest.

    The summarisers are asked in their order; the deterministic one is always behind them. If the last messages leave no
    room for a summary they go into it, the oldest first. `ContextTooLarge` if the pinned ones do not fit the window.
    Tokens are those that *model*, which the context is for, counts. *request_tokens* is the window of the summarisers'
    model, if that is another. The link's number is 1 until a chain gives it its own.
    """
    whole = await asyncio.to_thread(_counted, messages, counter, model)
    if sum(message.tokens for message in whole) <= target_tokens:
        return Condensed(whole, None)
    gone, room = _plan(whole, target_tokens, window_tokens, last)
    replaced = tuple(message for at, message in enumerate(whole) if at in gone)
    before = sum(message.tokens for message in replaced)
    if before <= room:
        return Condensed(whole, None)
    stays = [message for at, message in enumerate(whole) if at not in gone]
    ratio = counter.ratio(model) if model is not None else 1.0  # summarisers count without a model
    room, window = int(room / ratio), request_tokens or int(window_tokens / ratio)
    material = [message.model_copy(update={"tokens": math.ceil(message.tokens / ratio)}) for message in replaced]
    keep = await asyncio.to_thread(_referred, replaced, stays, room // 2, counter)
    making = Making(summarizers, counter, window, purpose, timeout_s)
    made = await making.within(material, room, keep)
    after = math.ceil(made.tokens * ratio)

    now, ids, digest = time.time(), tuple(message.id for message in replaced), digest_of(replaced)
    summary = Message(id=summary_id(ids, digest), speaker="summary", text=made.text, tokens=after, at=now)
    link = Link(
        number=1,
        scope=scope,
        replaced=ids,
        digest=digest,
        summary=made.text,
        by=made.by,
        model=made.model,
        tokens_before=before,
        tokens_after=after,
        appended=made.appended,
        tried=tuple(dict.fromkeys(making.tried)),
        cost_usd=making.cost_usd,
        at=now,
    )
    first = min(gone)
    kept = [summary if at == first else message for at, message in enumerate(whole) if at == first or at not in gone]
    return Condensed(tuple(kept), link, replaced)


def _counted(messages: Sequence[Message], counter: Counter, model: str | None) -> tuple[Message, ...]:
    """The messages, with their tokens where those were not counted yet."""
    return tuple(
        message if message.tokens or not message.text else message.model_copy(update={"tokens": counter.count(message.text, model)})
        for message in messages
    )


def _plan(messages: Sequence[Message], target: int, window: int, last: int) -> tuple[set[int], int]:
    """Which messages are to be replaced, by their place, and how many tokens there are for their summary."""
    pinned = sum(message.tokens for message in messages if message.pinned)
    loose = [at for at, message in enumerate(messages) if not message.pinned]
    if pinned + (LEAST if loose else 0) > window:
        raise ContextTooLarge([message for message in messages if message.pinned], window)
    first = max(0, len(messages) - last)
    gone, recent = [at for at in loose if at < first], [at for at in loose if at >= first]
    older, newer = (sum(messages[at].tokens for at in places) for places in (gone, recent))
    while recent and pinned + newer + min(older, max(LEAST, target // SHARE)) > target:
        gone.append(recent.pop(0))
        older, newer = older + messages[gone[-1]].tokens, newer - messages[gone[-1]].tokens
    return set(gone), max(LEAST, target - pinned - newer)


def _referred(replaced: Sequence[Message], stays: Sequence[Message], most: int, counter: Counter) -> tuple[str, ...]:
    """Names and numbers in what is replaced that a message which stays has, too: as many as *most* tokens hold."""
    said = "\n".join(message.text for message in stays)
    words = {*_WORDS.findall(said)}
    names: dict[str, None] = {}
    numbers: dict[str, None] = {}
    for message in replaced:
        facts = extract(message.text)
        names |= dict.fromkeys(fact.text for kind in (facts.paths, facts.urls, facts.identifiers) for fact in kind)
        numbers |= dict.fromkeys(fact.text for fact in facts.numbers if len(fact.text) > 2)  # small ones are everywhere
    # Most are ruled out by their words: to look for each of them in all that is said would take long.
    likely = [name for name in (*names, *numbers) if words.issuperset(_WORDS.findall(name))]
    absent = {*missing(likely, said)}
    kept: list[str] = []
    used = counter.count(also("", [""]))
    for name in likely:
        if name not in absent and used + (size := counter.count(f", {name}")) <= most:
            kept.append(name)
            used += size
    return tuple(kept)
