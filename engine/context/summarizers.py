"""Summaries by models, however they are reached, and the order in which summarisers are asked.

All material is quoted between fences that nothing in it can close. What a model answers is checked before it is used:
an empty answer, one that is far too long and a refusal are failures.
"""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from go_ent.engine.budget.known_models import with_slash
from go_ent.engine.budget.prices import Prices
from go_ent.engine.context.counting import Counter
from go_ent.engine.context.models import Message, Summarizer, Summary, SummaryRequest
from go_ent.engine.core.errors import SummaryFailed
from go_ent.engine.core.models import ModelCaller, ModelOptions, ModelReply, Tokens
from go_ent.engine.prompts.fences import label, one_line, printable, quoted, squeezed
from go_ent.engine.prompts.templating import Templates

TIMEOUT_S = 120.0
LONGEST_TOKEN = 128  # characters
TOO_LONG = 1.5  # times the size that was asked for
LEAST_SAID, LONG = 12, 2000  # characters of a summary, of so many tokens
WORDS = 0.7  # of a token, roughly
INSTALL = (
    "pydantic-ai is not installed: pip install 'go-ent[summarize]', with the extra of your provider, like "
    "pydantic-ai-slim[openai]"
)
_REFUSAL = re.compile(
    r"\W*(?:(?:i['’]?m|i am) (?:sorry|unable|not able)|sorry|i (?:can['’]?t|cannot|can not|won['’]?t|must decline)"
    r"|as an ai|unfortunately,? i)\b",
    re.IGNORECASE,
)
_REFUSED = 800  # characters: a longer text that begins so is still a summary

Sample = Callable[[str, str, int], Awaitable[ModelReply]]
"""Asks the connected client's model: the system prompt, the user's, and how many tokens it may write; what it says."""


def may_write(target: int) -> int:
    """Tokens that a model may write for a summary of *target*: one that thinks before pays for that out of the same
    number.
    """
    return 2 * target + 256


class ModelSummarizer:
    """Has a model write the summary, through *call*, where its cost is booked, too. *window* is that model's, if it
    is known.
    """

    def __init__(
        self,
        call: ModelCaller,
        templates: Templates,
        name: str,
        model: str | None = None,
        timeout_s: float = TIMEOUT_S,
        counter: Counter | None = None,
        window: int | None = None,
    ) -> None:
        self.name = name
        self.model = model
        self.timeout_s = timeout_s
        self.window = window
        self._call, self._templates = call, templates
        self._counter = counter or Counter()

    async def summarize(self, request: SummaryRequest) -> Summary:
        system, user = await asyncio.to_thread(self._prompt, request)
        model = request.model or self.model
        options = ModelOptions(model=model, max_tokens=may_write(request.target_tokens))
        try:
            async with asyncio.timeout(self.timeout_s):
                reply = await self._call(system, user, options)
        except TimeoutError:
            raise SummaryFailed(f"no answer within {self.timeout_s:g} s") from None
        text = printable(reply.text).strip()
        wrong = await asyncio.to_thread(self._wrong, text, request.target_tokens)
        if wrong is None and len(text) < LEAST_SAID and sum(message.tokens for message in request.messages) > LONG:
            wrong = f"the answer is too short to be a summary: {one_line(text)}"
        if wrong is not None:
            raise SummaryFailed(wrong, reply.cost_usd)
        return Summary(text=text, by=self.name, model=reply.model or model, usage=reply.usage, cost_usd=reply.cost_usd)

    def _prompt(self, request: SummaryRequest) -> tuple[str, str]:
        data = {
            "target_tokens": request.target_tokens,
            "words": max(1, int(request.target_tokens * WORDS)),
            "purpose": _quoted(request.purpose.strip()) if request.purpose.strip() else "",
            "keep": _quoted("\n".join(request.keep)) if request.keep else "",
            "messages": [_shown(number, message) for number, message in enumerate(request.messages, 1)],
        }
        most = 4 * sum(len(message.text) + 1000 for message in request.messages) + (1 << 20)
        system, user = (
            self._templates.render(f"summary_{part}.j2", data, characters=most).strip("\n")
            for part in ("system", "user")
        )
        if self.window is not None:  # a project's own template may say everything twice
            tokens = self._counter.count(system) + self._counter.count(user)
            if tokens + request.target_tokens > self.window:
                raise SummaryFailed(
                    f"the request has {tokens} tokens, and the model takes {self.window} with its answer", 0.0
                )
        return system, user

    def _wrong(self, text: str, target: int) -> str | None:
        if not any(sign.isalnum() for sign in text):
            return "the answer is empty"
        if len(text) > TOO_LONG * target * LONGEST_TOKEN:
            return f"the answer has {len(text)} characters"
        if len(text) < _REFUSED and _REFUSAL.match(text):
            return f"it refused: {one_line(text[:120])}"
        tokens = self._counter.count(text)
        return f"the answer has {tokens} tokens, {target} were asked for" if tokens > TOO_LONG * target else None


async def pydantic_ai(system: str, user: str, options: ModelOptions, prices: Prices) -> ModelReply:
    """Ask a model, by the name that it has in pydantic-ai: an optional extra, which is imported when it is first
    used.
    """
    library = await asyncio.to_thread(_pydantic_ai)
    agent = library.Agent(options.model, instructions=system, model_settings={"max_tokens": options.max_tokens})
    result = await agent.run(user)
    used = result.usage
    cached = used.cache_read_tokens + used.cache_write_tokens
    usage = Tokens(
        input=max(0, used.input_tokens - cached),  # theirs includes what was cached
        output=used.output_tokens,
        cache_read=used.cache_read_tokens,
        cache_write=used.cache_write_tokens,
    )
    cost = await asyncio.to_thread(prices.cost, with_slash(options.model or ""), usage)
    return ModelReply(text=result.output, usage=usage, cost_usd=cost, model=options.model)


class SamplingSummarizer(ModelSummarizer):
    """Asks the model of the connected MCP client, which decides about it and pays for it."""

    def __init__(
        self,
        sample: Sample,
        templates: Templates,
        name: str = "sampling",
        timeout_s: float = TIMEOUT_S,
        counter: Counter | None = None,
    ) -> None:
        async def ask(system: str, user: str, options: ModelOptions) -> ModelReply:
            return await sample(system, user, options.max_tokens or 1000)

        super().__init__(ask, templates, name, None, timeout_s, counter)


async def first_that_works(
    summarizers: Sequence[Summarizer], request: SummaryRequest, timeout_s: float
) -> tuple[Summary, list[str]]:
    """The summary of the first summariser that makes one, and why those before it did not.

    Each has *timeout_s*, but the last, behind which there is none. The cost is that of all of them, as far as it is
    known.
    `SummaryFailed` if none works: that can't be where the last needs no model.
    """
    tried: list[str] = []
    costs: list[float | None] = []
    for at, summarizer in enumerate(summarizers):
        try:
            async with asyncio.timeout(timeout_s if at < len(summarizers) - 1 else None):
                summary = await summarizer.summarize(request)
            if not summary.text.strip() and at < len(summarizers) - 1:
                raise SummaryFailed("the summary is empty", summary.cost_usd)
        except SummaryFailed as error:
            tried.append(f"{summarizer.name}: {one_line(str(error))}")
            costs.append(error.cost_usd)
        except TimeoutError:
            tried.append(f"{summarizer.name}: it took longer than {timeout_s:g} s")
            costs.append(None)
        except Exception as error:  # whatever it is: the next one is asked
            costs.append(None)
            tried.append(f"{summarizer.name}: {one_line(f'{type(error).__name__}: {error}')}")
        else:
            return summary.model_copy(update={"cost_usd": known([*costs, summary.cost_usd])}), tried
    raise SummaryFailed("no summariser works: " + ("; ".join(tried) or "there is none"), known(costs))


def known(costs: Sequence[float | None]) -> float | None:
    """What several cost together, as far as it is known; what costs nothing does not make it known."""
    found = sum(cost for cost in costs if cost is not None)
    return None if not found and None in costs else found


def _shown(number: int, message: Message) -> dict[str, Any]:
    """A message as templates see it."""
    source = label(message.source) if message.source else ""
    return {"number": number, "speaker": message.speaker, "source": source, "quoted": _quoted(message.text)}


def _quoted(text: str) -> str:
    return quoted(squeezed(printable(text)))


def _pydantic_ai() -> Any:
    try:
        return importlib.import_module("pydantic_ai")
    except ModuleNotFoundError as error:
        if error.name != "pydantic_ai":
            raise
        raise SummaryFailed(INSTALL) from None
