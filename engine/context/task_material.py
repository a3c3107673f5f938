"""What a task brings along beside its words: its context, and outputs of other tasks that stand in its description.

All of that is sent word for word as long as it fits. What does not is told in short: the task's own words never are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from go_ent.engine.context.material import message_of
from go_ent.engine.context.models import Message
from go_ent.engine.core.step import Step
from go_ent.engine.prompts.cutting import Fitting, Material, share
from go_ent.engine.prompts.render import KEPT

LEAST = 200  # tokens, below which what is left of a text says nothing


def loose_of(step: Step, count: Callable[[str], int]) -> list[Message]:
    """The texts of a step's prompt that may be told in short, with their tokens."""
    task = step.task
    found = [
        message_of("reference", one.source, one.text)
        for one in step.inserted
        if one.text and one.text in task.description
    ]
    if task.context.strip():
        found.append(message_of("context", "", task.context))
    return [one.model_copy(update={"tokens": count(one.text)}) for one in {one.id: one for one in found}.values()]


def shares(texts: Sequence[Message], over: int) -> dict[str, int]:
    """What each of the texts that must get shorter may take, so that all of them together are *over* tokens less. By
    id.
    """
    sizes = [one.tokens for one in texts]
    given = share(sizes, sum(sizes) - over)
    return {one.id: most for one, most in zip(texts, given, strict=True) if LEAST <= most < one.tokens}


def told(step: Step, texts: Sequence[Message], now: Mapping[str, str]) -> Step:
    """The step with other texts, by id, in the place of those."""
    task = step.task
    for one in texts:
        if one.id in now and one.speaker == "user":
            task = task.model_copy(update={"context": now[one.id]})
        elif one.id in now:
            task = task.model_copy(update={"description": task.description.replace(one.text, now[one.id])})
    return replace(step, task=task)


def cut(step: Step, texts: Sequence[Message], sizes: Mapping[str, int]) -> tuple[Step, list[str]]:
    """The step with the middle cut out of those that are too long, and what was done. It blocks."""
    now, notes = {}, []
    for one in texts:
        if one.id in sizes:
            name = f"the output of {one.source}" if one.source else "the context of the task"
            (made,) = Fitting([Material(name, one.text, KEPT)], sizes[one.id], 0).within(sizes[one.id])
            if made.text is not None:
                now[one.id] = made.text
                notes.append(made.note)
    return told(step, texts, now), notes
