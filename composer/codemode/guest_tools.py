"""The catalogue as a guest sees it: the tools of one scope, each call through the catalogue's one door."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic_core import to_json

from go_ent.composer.catalogue import stubs
from go_ent.composer.catalogue.catalogue import Catalogue
from go_ent.composer.catalogue.grants import Grants
from go_ent.composer.catalogue.scope import Scope
from go_ent.composer.catalogue.spec import ToolSpec
from go_ent.composer.codemode.discovery import QUESTIONS, SEARCH, Question
from go_ent.composer.errors import ComposerError, NotGranted
from go_ent.sandbox import ApprovalRequired, ToolError
from go_ent.sandbox.host.tools import CallFailed

MOST_NAMES = 2000
Answer = Callable[[str, dict[str, Any], Scope], Awaitable[Any]]


class GuestTools:
    """What a run may call. `answer` is how a call is answered, if not by the catalogue."""

    def __init__(self, catalogue: Catalogue, scope: Scope, answer: Answer | None = None) -> None:
        self.catalogue = catalogue
        self.scope = scope
        self.answer = answer or catalogue.call
        self.offline = answer is not None
        self.names_json = to_json([SEARCH, *catalogue.reachable_names(scope.grants)[:MOST_NAMES]])

    def find(self, name: str, call_id: int) -> GuestTool | Question:
        if name in QUESTIONS:
            return Question(name, self)
        return GuestTool(name, self, self.scope.at(call_id))

    async def refused(self, name: str) -> CallFailed:
        """What the guest is told of a tool that it may not call."""
        error = await self.catalogue.refusal(
            name, Grants() if self.offline else self.scope.grants
        )  # recordings start no server
        self.scope.note(name, {}, None, "not granted", time.perf_counter())
        self.catalogue.outcomes["not_granted"] += 1
        return CallFailed("NotGranted", f"it {error.reason}" if isinstance(error, NotGranted) else str(error))

    async def spec(self, name: str) -> ToolSpec:
        """A tool's interface, for its parameters' names; recorded answers start no server for it."""
        if self.offline:
            found = self.catalogue.known(name)
            if found is None:
                raise CallFailed(
                    "InvalidArguments",
                    "in an example a tool is called with names, as `name(q=…)`: its own are not known here",
                )
            return found
        return await self.catalogue.find(name, live=True)


class GuestTool:
    """One tool of a run. The source it comes from may not have been asked yet what it has."""

    is_async = True

    def __init__(self, name: str, tools: GuestTools, scope: Scope) -> None:
        self.name = name
        self._tools = tools
        self._scope = scope

    def bind(self, args: list[Any], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """All checks need the tool's schema, which may have to be fetched first: they are made in the call."""
        return (args, kwargs), {}

    def named(self, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        found = self._tools.catalogue.known(self.name)
        names = stubs.parameters(found) if found is not None else []
        return {**dict(zip(names, args, strict=False)), **kwargs}

    async def function(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        tools = self._tools
        if not tools.scope.allows(self.name):
            raise await tools.refused(self.name)
        try:
            arguments = kwargs
            if args:
                arguments = _by_name(await tools.spec(self.name), args, kwargs)
            return await tools.answer(self.name, arguments, self._scope)
        except (ApprovalRequired, ToolError):
            raise
        except ComposerError as error:
            raise CallFailed(_kind(error), str(error)) from None


def _kind(error: ComposerError) -> str:
    kinds = {"BadArguments": "InvalidArguments", "ToolNotFound": "UnknownTool", "CallError": "ToolError"}
    return kinds.get(type(error).__name__, type(error).__name__)


def _by_name(spec: ToolSpec, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    names = stubs.parameters(spec)
    if len(args) > len(names):
        raise CallFailed("InvalidArguments", f"it takes {len(names)} arguments at most, and {len(args)} were given")
    given = dict(zip(names, args, strict=False))
    twice = [name for name in given if name in kwargs]
    if twice:
        raise CallFailed("InvalidArguments", f"{twice[0]} was given twice, by position and by name")
    return {**given, **kwargs}
