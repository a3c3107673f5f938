"""What a context is made of: messages, summaries that stand for earlier ones, and how each came to be."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field, SkipValidation

from go_ent.engine.core.models import BudgetLimit, Model, Tokens

MOST = 10**12
Speaker = Literal["user", "assistant", "tool", "summary"]


class Message(Model):
    """One thing that was said. A pinned one is carried word for word, through every summary."""

    id: str
    speaker: Speaker
    text: str
    source: str = ""  # the step, role, tool or file that it is from
    pinned: bool = False
    tokens: Annotated[int, Field(ge=0, le=MOST)] = 0  # of its text, as counted when it came
    at: float = 0.0

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()


class SummaryRequest(Model):
    """What a summariser is asked for: messages in, one text out, within a number of tokens."""

    messages: tuple[Message, ...]
    target_tokens: Annotated[int, Field(gt=0)]
    keep: tuple[str, ...] = ()  # texts (identifiers, paths, numbers) that must be in it
    purpose: str = ""  # what the context is for: the task
    model: str | None = None


class Purse(Model):
    """Whose money a summary may take: an execution's, within its limit and within that of the step that it is made
    for.
    """

    execution_id: str
    task_id: str | None = None
    task_limit: BudgetLimit | None = None
    execution_limit: BudgetLimit | None = None
    is_execution: bool = True  # whether the id is that of an execution; else it is only a name on the account
    warn: SkipValidation[Callable[[str], None]] | None = Field(
        default=None, exclude=True, repr=False
    )  # is told of an overrun


class Summary(Model):
    """What a summariser made, and what that cost. A cost that is not known is None."""

    text: str
    by: str  # the summariser
    model: str | None = None
    usage: Tokens | None = None
    cost_usd: float | None = None


class Summarizer(Protocol):
    """Makes a summary. It may fail or take too long: then the next one is asked."""

    @property
    def name(self) -> str: ...

    async def summarize(self, request: SummaryRequest) -> Summary:
        """Raises `SummaryFailed`; any other exception is taken for that, too."""


class SummaryLink(Model):
    """One link of the chain: a summary, what it replaced, and how it came to be. The originals are kept beside it."""

    version: Literal[1] = 1
    number: Annotated[int, Field(ge=1)]
    scope: str = ""  # what it is about: "" is the execution's own context, else "the output of STEP" or "the file PATH"
    replaced: tuple[str, ...]  # ids of the messages that it stands for, in their order
    digest: str  # of their texts
    summary: str
    by: str
    model: str | None = None
    tokens_before: Annotated[int, Field(ge=0, le=MOST)]
    tokens_after: Annotated[int, Field(ge=0, le=MOST)]
    appended: tuple[str, ...] = ()  # what the check found missing, and put back
    tried: tuple[str, ...] = ()  # summarisers that failed before, and why
    cost_usd: Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False)] | None = None
    at: float

    def row(self) -> dict[str, Any]:
        """Without the texts, for a list."""
        return self.model_dump(mode="json", exclude={"summary", "replaced"}) | {"replaced": len(self.replaced)}
