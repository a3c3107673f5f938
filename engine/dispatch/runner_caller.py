"""Any runner as a plain model: text in, text out."""

from __future__ import annotations

from pathlib import Path

from go_ent.engine.core.errors import ModelFailed
from go_ent.engine.core.ids import new_id
from go_ent.engine.core.models import ModelOptions, ModelReply, RunRequest, RunResult
from go_ent.engine.runners.base.runner import Runner

TIMEOUT_S = 300.0


class RunnerCaller:
    """A `ModelCaller` over one runner: no tools, no files, no session. It keeps no account: the engine's own does."""

    def __init__(
        self, runner: Runner, cwd: Path, *, timeout_s: float = TIMEOUT_S, max_usd: float | None = None
    ) -> None:
        self._runner = runner
        self._cwd = cwd
        self._timeout_s = timeout_s
        self._max_usd = max_usd

    async def __call__(self, system: str, user: str, options: ModelOptions) -> ModelReply:
        return (await self.ask(system, user, options))[0]

    async def ask(self, system: str, user: str, options: ModelOptions) -> tuple[ModelReply, RunResult]:
        """The reply, and the run that it came from."""
        request = RunRequest(
            execution_id=new_id(),
            task_id="model",
            prompt=user,
            system=system,
            model=options.model,
            access="none",
            cwd=str(self._cwd),
            timeout_s=self._timeout_s,
            max_usd=self._max_usd,
            max_tokens=options.max_tokens,
            json_schema=options.json_schema,
        )
        result = await self._runner.execute(request, lambda _: None)
        if not result.ok:
            raise ModelFailed(f"{self._runner.name}: {result.error}", result)
        if options.json_schema is not None and result.structured is None:
            raise ModelFailed(f"{self._runner.name} answered in text where a JSON value was asked for", result)
        reply = ModelReply(
            text=result.output,
            structured=result.structured,
            usage=result.tokens,
            cost_usd=result.cost_usd,
            model=result.model,
        )
        return reply, result
