"""What a journal's records do to the state of an execution."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from go_ent.engine.core.errors import BadState
from go_ent.engine.core.models import RunResult, cost_of
from go_ent.engine.executions.state import (
    MAX_CHECKPOINTS,
    MAX_VALUE,
    AgentSession,
    Checkpoint,
    Decision,
    ExecutionState,
    Fill,
    Lines,
    Request,
    Summarized,
)
from go_ent.engine.executions.storage import Record
from go_ent.engine.executions.undo import gone_back

MOST_SAID = 100  # lines about damage that a state keeps
FIXED = frozenset({"version", "id", "seq", "offset", "damage"})  # no record of a change of status changes these


def applied(state: ExecutionState, record: Record) -> ExecutionState:
    """The state after a record of its journal, in a time that does not depend on how large it is. `BadState` if it
    can't be used.

    Results, tries and the like are changed in place: there may be thousands, and a copy for each record would take for
    ever.
    """
    try:
        changes = _CHANGES[record["kind"]](state, record) if record["kind"] in APPLIED else {}
    except (ValidationError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise BadState(
            f"record {record['seq']} of execution {state.id} can't be used: {str(error).splitlines()[0]}"
        ) from None
    return state.model_copy(update={"seq": record["seq"], **changes})


def with_damage(state: ExecutionState, text: str) -> ExecutionState:
    """The state that says of damage, once."""
    if text in state.damage or len(state.damage) >= MOST_SAID:
        return state
    return state.model_copy(update={"damage": (*state.damage, text)})


def _status(_: ExecutionState, record: Record) -> dict[str, Any]:
    changes = record["changes"]
    if not isinstance(changes, dict) or not FIXED.isdisjoint(changes):
        raise ValueError("it changes what does not change")
    return {"updated": _field("updated").validate_python(record["at"])} | {
        name: _field(name).validate_python(value) for name, value in changes.items()
    }


@cache
def _field(name: str) -> TypeAdapter[Any]:
    field = ExecutionState.model_fields[name]
    kind: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    return TypeAdapter(kind)


def _step_finished(state: ExecutionState, record: Record) -> dict[str, Any]:
    if not record.get("unknown"):  # what it says is not what the try came to
        state.begun.pop(_text(record["step"]), None)
    result = record["result"]
    known = result if isinstance(result, RunResult) else RunResult.model_validate(result)
    return with_result(state, _text(record["step"]), known)


def with_result(state: ExecutionState, step: str, result: RunResult) -> dict[str, Any]:
    """What the result of a step changes."""
    before = state.results.get(step)
    state.results[step] = result
    if result.ok:
        state.sessions.pop(step, None)
    elif result.session_id is not None and result.runtime is not None:
        state.sessions[step] = AgentSession(
            runtime=result.runtime, id=result.session_id, cost_usd=result.session_cost_usd
        )
    (usd, tokens), (old_usd, old_tokens) = _cost(result), _cost(before)
    spent = state.spent_usd if usd is None else (state.spent_usd or 0.0) + usd - (old_usd or 0.0)
    return {"spent_usd": spent, "spent_tokens": state.spent_tokens + tokens - old_tokens}


def _cost(result: RunResult | None) -> tuple[float | None, int]:
    """What all attempts of a step cost; a later result of the same step holds those of the earlier ones."""
    cost_usd, tokens = cost_of(result.attempts if result is not None else ())
    return cost_usd, tokens.total if tokens is not None else 0


def _try(state: ExecutionState, record: Record) -> dict[str, Any]:
    if type(record["try"]) is not int or not 0 < record["try"] < 1 << 31:
        raise ValueError("a try has a number")
    step, runtime, version = _text(record["step"]), _text(record["runtime"]), record.get("version")
    if version is not None:
        state.environment.runners[runtime] = _text(version)
    state.tries[step] = record["try"]
    if record.get("begun", True):
        state.begun[step] = runtime
    return {}


def _started(state: ExecutionState, record: Record) -> dict[str, Any]:
    state.begun[_text(record["step"])] = _text(record["runtime"])
    return {}


def _session(state: ExecutionState, record: Record) -> dict[str, Any]:
    state.sessions[_text(record["step"])] = AgentSession.model_validate(record["session"])
    return {}


def _call(state: ExecutionState, _: Record) -> dict[str, Any]:
    return {"calls": state.calls + 1}


def _calls(state: ExecutionState, record: Record) -> dict[str, Any]:
    return {"calls": state.calls + len(record["calls"])}


def _asked(state: ExecutionState, record: Record) -> dict[str, Any]:
    asked = {name: record[name] for name in ("tool", "arguments", "digest", "reason", "at") if name in record}
    path = _text(record["path"])
    state.requests[path] = Request.model_validate(asked)
    state.decisions.pop(path, None)
    return {}


def _decided(state: ExecutionState, record: Record) -> dict[str, Any]:
    path = _text(record["path"])
    state.decisions[path] = Decision.model_validate(
        {name: record[name] for name in ("approved", "seal") if name in record}, strict=True
    )
    state.requests.pop(path, None)
    return {}


def _checkpoint(state: ExecutionState, record: Record) -> dict[str, Any]:
    value = record.get("value")
    kept = len(to_json(value, inf_nan_mode="constants")) <= MAX_VALUE
    made = {name: record[name] for name in ("label", "at", "seq")}
    made |= {"path": record.get("path"), "value": value if kept else None, "kept": kept}
    return {"checkpoints": (*state.checkpoints[1 - MAX_CHECKPOINTS :], Checkpoint.model_validate(made))}


def _unmarked(state: ExecutionState, record: Record) -> dict[str, Any]:
    return {"checkpoints": tuple(one for one in state.checkpoints if one.seq != record["checkpoint"])}


def _summary(state: ExecutionState, record: Record) -> dict[str, Any]:
    made = Summarized.model_validate({name: record[name] for name in Summarized.model_fields if name in record})
    spent = state.spent_usd if made.cost_usd is None else (state.spent_usd or 0.0) + made.cost_usd
    return {"context": (*state.context[1 - MAX_CHECKPOINTS :], made), "spent_usd": spent}


def _context(_: ExecutionState, record: Record) -> dict[str, Any]:
    return {"fill": Fill.model_validate({name: record[name] for name in ("step", "tokens", "window")})}


def _line(state: ExecutionState, record: Record) -> dict[str, Any]:
    lines, done = state.lines or Lines(), _text(record["status"]) == "completed"
    return {"lines": Lines(done=lines.done + done, failed=lines.failed + (not done))}


def _note(state: ExecutionState, record: Record) -> dict[str, Any]:
    return {"damage": with_damage(state, _text(record["text"])[:1000]).damage} if "lost" in record else {}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("it is no text")
    return value


_CHANGES = MappingProxyType(
    {
        "status": _status,
        "step_finished": _step_finished,
        "try": _try,
        "started": _started,
        "session": _session,
        "call": _call,
        "calls": _calls,
        "asked": _asked,
        "decided": _decided,
        "checkpoint": _checkpoint,
        "unmarked": _unmarked,
        "undone": gone_back,
        "line": _line,
        "summary": _summary,
        "context": _context,
        "note": _note,
    }
)
APPLIED = frozenset(_CHANGES)  # the kinds of records that a state is made of
READ_RAW = frozenset({"asked", "checkpoint"})  # of these, the members that are JSON already
