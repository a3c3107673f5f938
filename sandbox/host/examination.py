"""Code that is looked at in a guest instead of run: for its interface, or to make a function of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from go_ent.sandbox.host.limits import Limits
from go_ent.sandbox.host.request import Way, check_language
from go_ent.sandbox.host.run import Run
from go_ent.sandbox.worker.languages import Language


class Examiner(ABC):
    """The part of a sandbox that looks at code. No tool can be called meanwhile."""

    @abstractmethod
    async def _examine(
        self, code: str | bytes, inputs: Mapping[str, Any] | None, limits: Limits | Mapping[str, Any] | None, way: Way
    ) -> Run:
        """Have a guest look at *code*, in a worker that no run waits for."""

    async def interface(
        self,
        code: str | bytes,
        name: str,
        *,
        limits: Limits | Mapping[str, Any] | None = None,
        language: Language = "python",
    ) -> Run:
        """What the function of that name takes, returns and calls, found out in a guest; the result is JSON. In
        JavaScript and TypeScript it is the one function that the code exports.

        The code's definitions are run for it, without any tools.
        """
        way = Way(name, "interface", language=check_language(language))
        return await self._examine(code, None, limits, way)

    async def suggest(
        self,
        runs: list[dict[str, Any]],
        least: int,
        saved: Mapping[str, str] | None = None,
        *,
        limits: Limits | Mapping[str, Any] | None = None,
        language: Language = "python",
    ) -> Run:
        """Functions that *runs* (`{"source", "inputs", "result"}`) of one shape would make, found out in a guest; none
        of them is run. What one of the *saved* tools does already makes none.
        """
        inputs = {"runs": runs, "least": least, "saved": dict(saved or {})}
        return await self._examine("", inputs, limits, Way("", "shapes", language=check_language(language)))

    async def as_tool(
        self,
        run: dict[str, Any],
        constants: Mapping[str, Any],
        name: str,
        doc: str,
        *,
        limits: Limits | Mapping[str, Any] | None = None,
        language: Language = "python",
    ) -> Run:
        """Code that ran (`{"source", "inputs", "result"}`) as a function of that name, made in a guest; it is not run.

        *constants* become parameters: values by `name`, or by `name:line`; `...` for what the code calls so itself.
        """
        inputs = {
            "run": run,
            "constants": {each: value for each, value in constants.items() if value is not ...},
            "unvalued": [each for each, value in constants.items() if value is ...],
            "doc": doc,
        }
        way = Way(name, "tool", language=check_language(language))
        return await self._examine("", inputs, limits, way)

    async def as_function(
        self,
        code: str,
        name: str,
        doc: str,
        *,
        limits: Limits | Mapping[str, Any] | None = None,
        language: Language = "python",
    ) -> Run:
        """Code that is no function as one of that name, made in a guest; it is not run."""
        way = Way(name, "function", language=check_language(language))
        return await self._examine(code, {"doc": doc}, limits, way)
