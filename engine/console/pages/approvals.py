"""Approvals: the calls that wait for a person, with exactly what each would do. What is decided is what was shown."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from starlette.responses import Response

from go_ent.dataclass import dataclass
from go_ent.engine.console.page import Page
from go_ent.engine.console.pages.run_facts import order_of, source_of
from go_ent.engine.console.visit import Refused, Viewer, Visit
from go_ent.engine.console.words import plural
from go_ent.engine.core.errors import EngineError
from go_ent.engine.core.ids import short_id
from go_ent.engine.executions.approvals import arguments_digest
from go_ent.engine.executions.state import ExecutionState, Request

PAGE = Page("/approvals", "Approvals", order=20, key="a")
MOST = 100  # runs that are shown
MOST_DECIDED = 500  # calls in one form


@dataclass(frozen=True, slots=True)
class Waiting:
    """One call that waits, and its run."""

    state: ExecutionState
    path: str
    request: Request

    @property
    def sound(self) -> bool:
        """Whether what is shown is what would be done."""
        return self.request.arguments is not None and arguments_digest(self.request.arguments) == self.request.digest

    @property
    def ticket(self) -> str:
        """What a form says of it: the run, the call, and the digest of what was shown."""
        return f"{self.state.id} {self.path} {self.request.digest}"


@PAGE.stamp("approvals")
async def _stamp(viewer: Viewer, argument: str) -> str:
    waiting = _calls(await viewer.engine.records.waiting(MOST, viewer.client))
    return hashlib.sha256("\n".join(one.ticket for one in waiting).encode()).hexdigest()[:16]


async def _badge(viewer: Viewer) -> int:
    return len(list(_calls(await viewer.engine.records.waiting(MOST, viewer.client))))


PAGE.badge = _badge


@PAGE.get()
async def approvals(visit: Visit) -> Response:
    """The inbox."""
    await visit.follow("approvals")
    states = await visit.engine.records.waiting(MOST, visit.viewer.client)
    codes = {}
    for state in states:
        code, language = await source_of(visit.viewer, state)
        codes[state.id] = code, language, order_of(state).get("tool") or ""
    return await visit.html("approvals.html", states=states, waiting=list(_calls(states)), codes=codes)


@PAGE.post("/decide")
async def decide(visit: Visit) -> Response:
    """Approve or reject the calls that were picked, each with the digest of what was shown; then go on with their
    runs, if no other call of theirs waits.
    """
    visit.allow(agents=True)
    if (word := visit.field("decision")) not in ("approve", "reject"):
        raise Refused(400, "a call is approved or rejected")
    tickets = list(dict.fromkeys(visit.fields("call")))
    if not 0 < len(tickets) <= MOST_DECIDED:
        return visit.go(visit.url("/approvals"), "pick the calls to decide about", bad=True)
    comment, failed, runs = visit.field("comment").strip()[:1000], [], dict[str, ExecutionState]()
    for ticket in tickets:
        execution_id, path, digest = [*ticket.split(" "), "", ""][:3]
        try:
            state = await visit.viewer.execution(execution_id)
            if not digest:
                raise Refused(400, "this form does not say what was shown")
            runs[state.id] = await visit.engine.decide(
                state.id, path, approved=word == "approve", digest=digest, why=comment
            )
        except (EngineError, Refused) as error:
            failed.append(str(error))
    done = len(tickets) - len(failed)
    if visit.field("resume") == "yes":
        for state in runs.values():
            if not state.requests and not order_of(state).get("each"):
                what = f"{short_id(state.id)} could not be resumed"
                try:
                    await visit.console.launches.go_on(visit.engine.resume(state.id), visit.session, what)
                except EngineError as error:
                    failed.append(f"{what}: {error}")
    said = (
        f"{plural(done, 'call')} {'approved' if word == 'approve' else 'rejected'}" if done else "nothing was decided"
    )
    return visit.go(visit.back(visit.url("/approvals")), "; ".join([said, *failed]), bad=bool(failed))


def _calls(states: Iterable[ExecutionState]) -> Iterable[Waiting]:
    return (Waiting(state, path, request) for state in states for path, request in state.requests.items())
