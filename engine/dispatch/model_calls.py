"""Models that are asked outside of a step: a question, a summary. Within the budget, and on the account, whatever
answers.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path

from go_ent.composer.sources.server_config import Scrubber
from go_ent.engine.budget import Budget, Prices, Settled, spender
from go_ent.engine.budget.known_models import with_slash
from go_ent.engine.context.counting import Counter
from go_ent.engine.context.deterministic import Deterministic
from go_ent.engine.context.models import Purse, Summarizer
from go_ent.engine.context.summarizers import ModelSummarizer, Sample, SamplingSummarizer, pydantic_ai
from go_ent.engine.core.config import EngineConfig
from go_ent.engine.core.errors import BadTask, BudgetExceeded, ModelFailed, SummaryFailed
from go_ent.engine.core.ids import new_id
from go_ent.engine.core.models import ModelOptions, ModelReply, RunResult, Task
from go_ent.engine.dispatch.payment import never_asked
from go_ent.engine.dispatch.runner_caller import RunnerCaller
from go_ent.engine.dispatch.runtime_choice import choose_runtime
from go_ent.engine.prompts.templating import Templates
from go_ent.engine.runners.registry import Registry
from go_ent.engine.tokens import count

SECRET = re.compile(r"(?i)key|token|secret|password|credential")
RUNNER, PYDANTIC_AI = "runner", "pydantic-ai"
PLAIN = ("cli", PYDANTIC_AI)  # runtimes that send what they are given; agents add what they say of themselves

Answer = Callable[[float | None], Awaitable[tuple[ModelReply, RunResult | None]]]
"""Asks, with a cap in dollars; the reply, and the run that it came from if there was one."""


class Asking:
    """Of one engine. *check* refuses a runtime that a folder which nobody trusts must not start; *client_of* is who
    began an execution,
    *window_of* what a model takes."""

    def __init__(
        self,
        project: Path,
        config: EngineConfig,
        registry: Registry,
        budget: Budget,
        prices: Prices,
        templates: Templates,
        counter: Counter,
        check: Callable[[str, Task], None],
        client_of: Callable[[str], Awaitable[str]],
        window_of: Callable[[str], int],
        *,
        trusted: bool,
    ) -> None:
        self._client_of, self._window_of, self._trusted = client_of, window_of, trusted
        self._project, self._config, self._registry, self._check = project, config, registry, check
        self._budget, self._prices, self._templates, self._counter = budget, prices, templates, counter
        self.sample: Sample | None = None  # asks the connected client's model, where there is one

    async def model(
        self,
        system: str,
        user: str,
        options: ModelOptions,
        *,
        purse: Purse,
        runtime: str | None = None,
        may_ask: bool = True,
    ) -> ModelReply:
        """Ask through a runtime; by default the one that a task would go to."""
        task = Task(description="a question", access="none", runtime=runtime)
        choice = await choose_runtime(
            task, None, self._config.engine.runtime, self._config.engine.command, self._registry
        )
        self._check(choice.runtime, task)

        async def answer(cap: float | None) -> tuple[ModelReply, RunResult | None]:
            return await RunnerCaller(self._registry.get(choice.runtime), self._project, max_usd=cap).ask(
                system, user, options
            )

        return await self._paid(answer, choice.runtime, system + user, options, purse, may_ask=may_ask)

    async def _summary(
        self, system: str, user: str, options: ModelOptions, *, purse: Purse, runtime: str
    ) -> ModelReply:
        """An answer that is a summary: nobody is asked for more money, and what a failure cost is told."""

        async def answer(_: float | None) -> tuple[ModelReply, RunResult | None]:
            return await pydantic_ai(system, user, options, self._prices), None

        try:
            if runtime == PYDANTIC_AI:
                return await self._paid(answer, runtime, system + user, options, purse, may_ask=False)
            return await self.model(
                system, user, options, purse=purse, runtime=None if runtime == RUNNER else runtime, may_ask=False
            )
        except ModelFailed as error:
            result = error.result
            raise SummaryFailed(str(error), 0.0 if result is None or never_asked(result) else result.cost_usd) from None
        except BudgetExceeded as error:
            raise SummaryFailed(str(error), 0.0) from None
        except SummaryFailed as error:
            raise SummaryFailed(str(error), 0.0) from None
        except Exception as error:  # of a library: what it says may repeat the key that it was given
            raise SummaryFailed(
                f"{type(error).__name__}: {_scrubbed(str(error))}", 0.0 if _refused(error) else None
            ) from None

    async def _paid(
        self, answer: Answer, runtime: str, prompt: str, options: ModelOptions, purse: Purse, *, may_ask: bool
    ) -> ModelReply:
        """Hold what an answer may cost, have it, and count what it came to, however it ended."""
        key, limit = f"{new_id()}/model/1", purse.task_limit
        client = await self._client_of(purse.execution_id) if purse.is_execution else ""
        tokens = await asyncio.to_thread(count, prompt)
        for one in self._may_answer(runtime, options.model):
            if tokens > (window := self._window_of(one)):
                raise BadTask(f"what is asked is {tokens} tokens long, and {one} takes {window}: nothing was sent")
        priced = with_slash(options.model) if options.model and runtime == PYDANTIC_AI else options.model
        command = spender(self._config, None) if runtime == "cli" else None
        estimate = await asyncio.to_thread(
            self._budget.estimate,
            model=priced,
            prompt_tokens=tokens,
            limit=limit,
            max_output=options.max_tokens,
            client=client,
            command=command,
        )
        reservation = await self._budget.reserve(
            key,
            estimate,
            execution_id=purse.execution_id,
            task_id=purse.task_id or key,
            task_limit=limit,
            execution_limit=purse.execution_limit,
            may_ask=may_ask,
            client=client,
            command=command,
        )
        try:
            reply, result = await answer(reservation.usd if reservation.usd_limited else None)
        except BaseException as error:
            failed = error.result if isinstance(error, ModelFailed) else None
            if (failed is not None and never_asked(failed)) or _refused(error):
                await self._budget.release(reservation)
                raise
            usage, usd = (failed.tokens, failed.cost_usd) if failed is not None else (None, None)
            model = (failed.model if failed is not None else None) or options.model
            settling = self._budget.settle(reservation, runtime=runtime, model=model, role=None, tokens=usage, usd=usd)
            settled = await asyncio.shield(settling)
            _tell(purse, settled)
            if isinstance(error, ModelFailed):
                raise ModelFailed(
                    str(error), None if failed is None else failed.model_copy(update={"cost_usd": settled.cost_usd})
                ) from None
            raise
        model = (result.model if result is not None else None) or options.model
        settled = await asyncio.shield(
            self._budget.settle(
                reservation, runtime=runtime, model=model, role=None, tokens=reply.usage, usd=reply.cost_usd
            )
        )
        _tell(purse, settled)
        if model and reply.usage is not None and runtime in PLAIN:
            # One question and one answer, with nothing around them: what it is counted as is the tokenizer's doing.
            self._counter.report(model, tokens, reply.usage.input + reply.usage.cache_read + reply.usage.cache_write)
        return reply.model_copy(update={"cost_usd": settled.cost_usd})

    def summarizers(self, purse: Purse, model: str | None) -> list[Summarizer]:
        """Those that the configuration names, in its order; one that needs no model is always behind them.

        `open-code:openai/gpt-5-mini` is a runtime and the model to ask there; without one it is *model*, or the
        configuration's.
        """
        config, made = self._config.context, list[Summarizer]()
        for given in config.summarizers:
            name, _, own = given.partition(":")
            chosen = model or own or config.model
            if name == "deterministic":
                made.append(Deterministic(self._counter))
            elif name == "sampling":
                if self.sample is not None:
                    made.append(
                        SamplingSummarizer(
                            self.sample, self._templates, timeout_s=config.timeout_s, counter=self._counter
                        )
                    )
            elif name != PYDANTIC_AI or (chosen is not None and self._trusted):
                call = partial(self._summary, purse=purse, runtime=name)
                window = min(map(self._window_of, self._may_answer(name, chosen)), default=None)
                made.append(
                    ModelSummarizer(call, self._templates, name, chosen, config.timeout_s, self._counter, window)
                )
        return made

    def _may_answer(self, runtime: str, model: str | None) -> set[str]:
        """The models that may read a request to a runtime, as far as the configuration says."""
        engine, models = self._config.engine, {model}
        runtimes = [engine.runtime or name for name in self._registry.names] if runtime == RUNNER else [runtime]
        if "cli" in runtimes:  # a command may take no other model than its own
            command = self._config.commands.get(engine.command or "")
            models.add(None if command is None else command.model)
        if model is None:
            models |= {self._config.runners[name].model for name in runtimes if name in self._config.runners}
        return {one for one in models if one is not None}


def _tell(purse: Purse, settled: Settled) -> None:
    if purse.warn is not None and settled.warning is not None:
        purse.warn(settled.warning)


def _refused(error: BaseException) -> bool:
    """Whether a library could not ask, or its provider would not answer: neither costs anything."""
    status = getattr(error, "status_code", None)
    refused = isinstance(status, int) and HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
    return refused or isinstance(error, SummaryFailed | ImportError) or type(error).__name__ == "UserError"


def _scrubbed(text: str) -> str:
    """A text without the values of variables that are secrets, by their names."""
    return Scrubber(value for name, value in os.environ.items() if SECRET.search(name))(text)
