"""Making a context shorter: pinned messages and the last ones stay as they are, one summary stands for the rest."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Sequence

from go_ent.dataclass import dataclass
from go_ent.engine.context.chain import digest_of, summary_id
from go_ent.engine.context.counting import Counter
from go_ent.engine.context.facts import extract, words
from go_ent.engine.context.models import Message, Summarizer, SummaryLink
from go_ent.engine.context.summary_job import LEAST, Asked, Making, also
from go_ent.engine.core.errors import ContextTooLarge
from go_ent.engine.prompts.fences import one_line

SHARE = 4  # a summary gets this part of the target, before the last messages do
MOST_TOLD = 10
DECIDED = re.compile(r"(?i)\b(?:decided|decisions?|agreed|constraint|must not|never|no exceptions|not allowed)\b")


@dataclass(frozen=True, slots=True)
class Condensed:
    """The shorter context, the link that tells of the summary in it, and what that replaced. No link: nothing was
    replaced.
    """

    messages: tuple[Message, ...]
    link: SummaryLink | None
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
    request_tokens: int | None = None,
    scope: str = "",
    said: str = "",
    asked: Asked | None = None,
) -> Condensed:
    """The context within *target_tokens*: pinned messages and the *last* ones word for word, a summary in place of the
    rest.

    The summarisers are asked in their order; the deterministic one is always behind them. If the last messages leave no
    room for a summary they go into it, the oldest first. `ContextTooLarge` if the pinned ones do not fit the window.
    *request_tokens* is the window of the summarisers' model, if that is another. What the messages that stay speak of,
    or
    *said* does, is in the summary by name, and decisions are in it word for word. Who fails again
    and again is not asked any more, nor in another context with the same *asked*. The link's number is 1 until a chain
    gives it its own.
    """
    whole = await asyncio.to_thread(_counted, messages, counter)
    if sum(message.tokens for message in whole) <= target_tokens:
        return Condensed(whole, None)
    gone, room = _plan(whole, target_tokens, window_tokens, last)
    replaced = tuple(message for at, message in enumerate(whole) if at in gone)
    before = sum(message.tokens for message in replaced)
    if before <= room:
        return Condensed(whole, None)
    stays = [message for at, message in enumerate(whole) if at not in gone]
    keep = await asyncio.to_thread(_kept, replaced, [*(message.text for message in stays), said], room, counter)
    making = Making(summarizers, counter, request_tokens or window_tokens, purpose, timeout_s, asked)
    made = await making.within(replaced, room, keep)

    now, ids, digest = time.time(), tuple(message.id for message in replaced), digest_of(replaced)
    summary = Message(id=summary_id(ids, digest), speaker="summary", text=made.text, tokens=made.tokens, at=now)
    link = SummaryLink(
        number=1,
        scope=scope,
        replaced=ids,
        digest=digest,
        summary=made.text,
        by=made.by,
        model=made.model,
        tokens_before=before,
        tokens_after=made.tokens,
        appended=made.appended,
        tried=tuple(dict.fromkeys(making.tried)),
        cost_usd=making.cost_usd,
        at=now,
    )
    first = min(gone)
    kept = [summary if at == first else message for at, message in enumerate(whole) if at == first or at not in gone]
    return Condensed(tuple(kept), link, replaced)


def _counted(messages: Sequence[Message], counter: Counter) -> tuple[Message, ...]:
    """The messages, with their tokens where those were not counted yet."""
    return tuple(
        message
        if message.tokens or not message.text
        else message.model_copy(update={"tokens": counter.count(message.text)})
        for message in messages
    )


def _plan(messages: Sequence[Message], target: int, window: int, last: int) -> tuple[set[int], int]:
    """Which messages are to be replaced, by their place, and how many tokens there are for their summary."""
    pinned = sum(message.tokens for message in messages if message.pinned)
    loose = [at for at, message in enumerate(messages) if not message.pinned]
    if pinned + (LEAST if loose else 0) > window:
        raise ContextTooLarge(pinned, window, _largest([message for message in messages if message.pinned]))
    first = max(0, len(messages) - last)
    gone, recent = [at for at in loose if at < first], [at for at in loose if at >= first]
    older, newer = (sum(messages[at].tokens for at in places) for places in (gone, recent))
    while recent and pinned + newer + min(older, max(LEAST, target // SHARE)) > target:
        gone.append(recent.pop(0))
        older, newer = older + messages[gone[-1]].tokens, newer - messages[gone[-1]].tokens
    return set(gone), max(LEAST, target - pinned - newer)


def _kept(replaced: Sequence[Message], spoken: Sequence[str], room: int, counter: Counter) -> tuple[str, ...]:
    """What must be in the summary: decisions, as many as a quarter of the room holds, the newest first; and names and
    numbers that what stays speaks of, half of the room at the most."""
    known = {text for said in spoken for _, text in words(said)}
    names: dict[str, None] = {}
    numbers: dict[str, None] = {}
    decisions: dict[str, None] = {}
    for message in replaced:
        facts = extract(message.text)
        names |= dict.fromkeys(
            fact.text for kind in (facts.paths, facts.urls, facts.identifiers) for fact in kind if fact.text in known
        )
        # Small numbers are everywhere.
        numbers |= dict.fromkeys(fact.text for fact in facts.numbers if len(fact.text) > 2 and fact.text in known)
        decisions |= dict.fromkeys(fact.text for fact in facts.decisions if DECIDED.search(fact.text))
    frame = counter.count(also("", [""]))
    kept = _within(reversed(decisions), room // 4 - frame, counter)[::-1]
    return (*kept, *_within((*names, *numbers), room // 2 - frame, counter))


def _within(texts: Iterable[str], most: int, counter: Counter) -> list[str]:
    taken: list[str] = []
    for text in texts:
        most -= counter.count(f", {text}")
        if most < 0:
            break
        taken.append(text)
    return taken


def _largest(pinned: Sequence[Message]) -> str:
    """The largest messages with their sizes, for an error."""
    largest = sorted(pinned, key=lambda message: -message.tokens)
    sizes = [
        f"{one_line(message.id)}{f' ({one_line(message.source)})' if message.source else ''}: {message.tokens}"
        for message in largest[:MOST_TOLD]
    ]
    return ", ".join(sizes) + (f", and {len(largest) - MOST_TOLD} more" if len(largest) > MOST_TOLD else "")
