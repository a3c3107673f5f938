"""The material of a prompt as messages: outputs of earlier steps, feedback and files; and what still speaks of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from go_ent.engine.context.chain import digest_of, summary_id
from go_ent.engine.context.models import Message, Speaker, SummaryLink
from go_ent.engine.core.step import Output
from go_ent.engine.prompts.files import FilePart
from go_ent.engine.prompts.render import shown

SPEAKERS: dict[str, Speaker] = {"feedback": "user", "context": "user", "file": "tool"}
SAID = frozenset(
    {"description", "prompt", "context", "pinned", "metadata", "constraints", "code"}
)  # fields of a task that say something
MOST_SAID = 200_000  # characters


def message_of(kind: str, source: str, text: str) -> Message:
    """A message of a context: its id is that of its kind, its source and its text."""
    message = Message(id="", speaker=SPEAKERS.get(kind, "assistant"), text=text, source=source)
    return message.model_copy(update={"id": f"{kind}:{source}:{message.digest[:12]}"})


def outputs_of(kind: str, outputs: Iterable[Output]) -> list[Message]:
    """Outputs as messages: what a prompt would show of them, their data too."""
    return [message_of(kind, one.source, shown(one)) for one in outputs]


def left_of(kind: str, outputs: Sequence[Output], now: Mapping[str, str]) -> tuple[Output, ...]:
    """The outputs that stand for themselves; one that is a summary by now has no data beside it."""
    left = []
    for output, message in zip(outputs, outputs_of(kind, outputs), strict=True):
        text = now.get(message.id)
        if text is not None:
            left.append(output if text == message.text else replace(output, text=text, structured=None))
    return tuple(left)


def content_of(file: FilePart) -> str:
    """All that was read of a file."""
    return (
        f"{file.text}\n[… {file.missing} bytes of it were not read …]\n{file.tail}"
        if file.missing
        else file.text + file.tail
    )


def apply(messages: Sequence[Message], links: Iterable[SummaryLink]) -> list[Message]:
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
            id=summary_id(link.replaced, link.digest),
            speaker="summary",
            text=link.summary,
            tokens=link.tokens_after,
            at=link.at,
        )
        now = [
            summary if place == at else message
            for place, message in enumerate(now)
            if place == at or message.id not in link.replaced
        ]
    return now


def said_by(work: Any, *, context: bool = True) -> str:
    """All that the tasks of an execution say, as its state has them: what they name must not be lost in a summary.

    Without their contexts, if one of these is what is summarised: it names all that is in it.
    """
    texts, size = [], 0
    for text in _texts(work, inside=False, said=SAID if context else SAID - {"context"}):
        texts.append(text[: MOST_SAID - size])
        size += len(texts[-1])
        if size >= MOST_SAID:
            break
    return "\n".join(texts)


def _texts(value: Any, *, inside: bool, said: frozenset[str]) -> Iterator[str]:
    if isinstance(value, str):
        if inside:
            yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _texts(one, inside=inside or key in said, said=said)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one, inside=inside, said=said)
