"""Questions to the person behind a client: whether a call that needs approval may be made, and whether the budget may
be passed.

An execution that needs an answer rests meanwhile, and no clock of its own runs. A client of the older protocol is asked
during its call; one of 2026-07-28 is told the questions as its call's result, and makes the call again with the
answers. A decision holds for what was shown and for nothing else.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from fastmcp.tools.base import InputRequiredToolResult
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import BudgetExceeded
from go_ent.engine.engine import Engine
from go_ent.engine.executions.approvals import arguments_digest
from go_ent.engine.executions.state import ExecutionState, Request
from go_ent.engine.processes.trees import TAG
from go_ent.engine.server.calls.callers import current
from go_ent.engine.server.calls.request import ToolRequest, request_under_way

log = logging.getLogger("go_ent.engine.server")
Decision = Literal["yes", "no", "later"]
MOST_SHOWN = 4000  # characters of arguments: the person who decides has seen all of them
MOST_AT_ONCE = 20
FIELD = "approve"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {FIELD: {"type": "boolean", "title": "Approve", "description": "Yes lets it go ahead, once."}},
    "required": [FIELD],
}


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked about an execution. The key says what it is about: a call and its arguments, or texts
    of the budget.
    """

    key: str
    message: str
    call: str | None = None  # None: the budget
    digest: str = ""
    allows: tuple[str, ...] = ()  # of the budget: what it refused


class Permits:
    """The refusals of the budget that a person lets pass, each of them once. An `Ask` of the engine."""

    def __init__(self, refusals: Iterable[str] = ()) -> None:
        self._left = Counter(refusals)

    async def __call__(self, over: BudgetExceeded) -> bool:
        text = str(over)
        if self._left[text] <= 0:
            return False
        self._left[text] -= 1
        return True


class Person:
    """The person behind the client of the request under way, who can be asked."""

    def __init__(self, request: ToolRequest) -> None:
        self._request = request
        # The answers come with the next request.
        self.later = request.session.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def ask(self, questions: Sequence[Question]) -> dict[str, Decision]:
        """Ask one after the other; who puts one off is asked no more."""
        verdicts: dict[str, Decision] = {}
        for question in questions:
            try:
                answer = await self._request.session.elicit_form(question.message, SCHEMA, self._request.id)
            except (MCPError, ValueError) as error:  # it offers what it can't do, or answers what is no answer
                log.info("a client could not be asked: %s", error)
                break
            verdicts[question.key] = _verdict(answer)
            if verdicts[question.key] == "later":
                break
        return verdicts

    @staticmethod
    def hand_over(questions: Sequence[Question], execution_id: str) -> InputRequiredToolResult:
        """The questions as the result of the call, which is to be made again with the answers."""
        asked = {
            one.key: ElicitRequest(params=ElicitRequestFormParams(message=one.message, requested_schema=SCHEMA))
            for one in questions
        }
        return InputRequiredToolResult(InputRequiredResult(input_requests={**asked}, request_state=execution_id))


def person() -> Person | None:
    """Who can be asked about the call under way. None: the client has no way to, may not decide, or is an agent that
    go-ent started.
    """
    if TAG in os.environ or not current().may_run_agents:
        return None
    request = request_under_way()
    offered = None if request is None else request.session.client_capabilities
    if request is None or offered is None or offered.elicitation is None:
        return None
    if offered.elicitation.form is None and offered.elicitation.url is not None:
        return None
    found = Person(request)
    return found if found.later or request.session.can_send_request else None


def returned() -> tuple[str, dict[str, Decision]] | None:
    """The execution that the request under way comes back to, and the answers that it brings. The id was sealed by this
    server.

    Also of a client that can't be asked any more: what it has begun is not begun again.
    """
    request = request_under_way()
    if request is None or not request.state:
        return None
    answers = request.answers.items()
    return request.state, {key: _verdict(answer) for key, answer in answers if isinstance(answer, ElicitResult)}


def asks_budget(engine: Engine) -> bool:
    """Whether a person may let pass what does not fit: not a hard budget's, and not somebody else's."""
    return not engine.config.budget.hard and not current().name


def questions(state: ExecutionState, *, budget: bool) -> list[Question]:
    """What keeps an execution from going on that a person could decide, as far as it can be shown as a whole."""
    if state.status == "paused":
        found = [_about_call(state, path, request) for path, request in state.requests.items()]
        return [one for one in found if one is not None][:MOST_AT_ONCE]
    if state.status == "failed" and budget and (over := _refused(state)):
        return [_about_budget(state, over)]
    return []


async def settle(
    engine: Engine, execution_id: str, asked: Sequence[Question], verdicts: Mapping[str, Decision]
) -> Permits | None:
    """Put down what was answered. What the execution goes on with; None: it goes on no further."""
    permitted: list[str] = []
    for question in asked:
        verdict = verdicts.get(question.key, "later")
        if question.call is None:
            if verdict != "yes":
                return None
            permitted += question.allows
        elif verdict != "later":
            await engine.decide(execution_id, question.call, approved=verdict == "yes", digest=question.digest)
    state = await engine.status(execution_id)
    return None if state.requests else Permits(permitted)


def _verdict(answer: ElicitResult) -> Decision:
    """Yes is said, never assumed."""
    if answer.action == "decline":
        return "no"
    said = (answer.content or {}).get(FIELD) if answer.action == "accept" else None
    return "yes" if said is True else "no" if said is False else "later"


def _about_call(state: ExecutionState, path: str, request: Request) -> Question | None:
    if request.arguments is None or arguments_digest(request.arguments) != request.digest:
        return None
    arguments = json.dumps(request.arguments, indent=1)  # in ASCII: nothing in it looks like something else
    if len(arguments) > MOST_SHOWN:
        return None
    message = f"May {_plain(request.tool)} be called?\n{arguments}\nWhy this is asked: {_plain(request.reason)}."
    message += f" ({_plain(state.title)}; call {path} of execution {state.id})"
    key = _key("call", state.id, path, request.tool, request.digest)
    return Question(key, message, call=path, digest=request.digest)


def _refused(state: ExecutionState) -> list[tuple[str, str]]:
    """The steps that the budget refused, and its words."""
    found = [
        (step, (result.error or "").partition("; give the task")[0])
        for step, result in state.results.items()
        if _over(result)
    ]
    return found[:MOST_AT_ONCE]


def _over(result: Any) -> bool:
    return result.failure == "budget" and (result.error or "").startswith("the budget of the ")


def _about_budget(state: ExecutionState, over: list[tuple[str, str]]) -> Question:
    lines = "\n".join(f"- {_plain(step)}: {_plain(text)}" for step, text in over)
    message = (
        f"The budget does not hold this. May it be passed, once?\n{lines}\n({_plain(state.title)}; execution "
        f"{state.id})"
    )
    return Question(
        _key("budget", state.id, *(part for one in over for part in one)),
        message,
        allows=tuple(text for _, text in over),
    )


def _key(*parts: str) -> str:
    return f"{parts[0]}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]}"


def _plain(text: str) -> str:
    """One line for a person, in which nothing is hidden."""
    return "".join(char if char.isprintable() else "�" for char in text.replace("…", "..."))[:300]
