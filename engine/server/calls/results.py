"""What the server's tools answer: shapes that are true, every field bounded, and one place where what went wrong
becomes an error.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, ParamSpec

from fastmcp.tools.base import ToolResult
from pydantic import ValidationError, WithJsonSchema
from pydantic_core import to_json

from go_ent.composer import ComposeRefused
from go_ent.composer.catalogue.catalogue import GRANT_IT
from go_ent.composer.codemode.codemode import CodeRun
from go_ent.composer.errors import WrongStore
from go_ent.engine.core.errors import NotAllowed
from go_ent.engine.core.explain import explain
from go_ent.engine.core.ids import short_id
from go_ent.engine.core.models import TaskResult
from go_ent.engine.core.outcomes import OUTCOMES
from go_ent.engine.executions.state import ExecutionState, Request
from go_ent.engine.server.calls import media
from go_ent.engine.server.calls.advice import in_tools
from go_ent.engine.server.calls.callers import current
from go_ent.engine.server.calls.record_tables import as_table
from go_ent.sandbox import RunError
from go_ent.sandbox.errors import AdvisedError
from go_ent.sandbox.messages.advice import Advice, joined
from go_ent.sandbox.worker.languages import Language

log = logging.getLogger("go_ent.engine.server")
P = ParamSpec("P")
Wants = Literal["compose", "agents"]
MAX_CHARS = 10_000
MAX_SCOPE = 300
MAX_STUBS = 40_000  # characters
MAX_VALUE, MAX_VALUES = 100, 300  # characters of what a name stood for, and of all that are told
READ_ONLY = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
KEEPS = {
    "readOnlyHint": False,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}  # changes what can be undone
RUNS = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}  # does what its tools do

STRING: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
INTEGER: dict[str, Any] = {"type": "integer"}
# A language that is not the usual one. Which there are, code_execute says once: each word is paid for in every turn.
OtherLanguage = Annotated[Language | None, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}]})]


def shape(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object; all that is not *required* may be left out."""
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def rows(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": shape(*required, **properties)}


TEXT = shape("text", text=STRING)
ARRAY: dict[str, Any] = {"type": "array"}
OBJECT: dict[str, Any] = {"type": "object"}
BOOLEAN: dict[str, Any] = {"type": "boolean"}
RUN = shape(
    "execution_id",
    "status",
    execution_id=STRING,
    status={"enum": list(OUTCOMES)},
    result={},
    stdout=STRING,
    error=STRING,
    hint=STRING,
    help=STRING,
    pending=ARRAY,
    warning=STRING,
    usage=OBJECT,
    files=ARRAY,
)
_STATE: dict[str, Any] = {
    "execution_id": STRING,
    "status": STRING,
    "output": STRING,
    "error": STRING,
    "hint": STRING,
    "pending": ARRAY,
    "steps": ARRAY,
}
WORK = shape(
    "status",
    **_STATE,
    strategy=STRING,
    metrics=OBJECT,
    files_modified=ARRAY,
    observations=ARRAY,
    adjustments=ARRAY,
    prompts=ARRAY,
)
RESUMED = shape(
    "execution_id",
    "status",
    **_STATE,
    strategy=STRING,
    metrics=OBJECT,
    result={},
    stdout=STRING,
    changed=ARRAY,
    usage=OBJECT,
    files=ARRAY,
)
STATUS = shape(
    "execution_id",
    "status",
    **_STATE,
    title=STRING,
    resumable=BOOLEAN,
    tool_calls=INTEGER,
    spent_usd=NUMBER,
    spent_tokens=INTEGER,
    summaries=ARRAY,
)


def failed(message: str) -> ToolResult:
    """A failure that the model can act on."""
    return ToolResult(content=cut(message), is_error=True)


def text(value: str, **more: Any) -> ToolResult:
    return ToolResult(content=value, structured_content={"text": value, **more})


def said(value: str, **fields: Any) -> ToolResult:
    """Words for who reads, fields for who counts."""
    return ToolResult(content=value, structured_content=fields)


def answering(
    wants: Wants | None = None,
) -> Callable[[Callable[P, Awaitable[ToolResult]]], Callable[P, Awaitable[ToolResult]]]:
    """A tool of the server: what it raises is an error that says what was wrong. *wants* is what a caller must be
    allowed.
    """

    def decorate(tool: Callable[P, Awaitable[ToolResult]]) -> Callable[P, Awaitable[ToolResult]]:
        @functools.wraps(tool)
        async def answer(*args: P.args, **kwargs: P.kwargs) -> ToolResult:
            try:
                allow(wants)
                return await tool(*args, **kwargs)
            except ComposeRefused as error:
                lines = [f"{error.name} was not saved:", *(f"- {problem}" for problem in error.problems)]
                return failed(joined("\n".join(lines), error.advice, in_tools))
            except WrongStore as error:
                return failed(
                    f"{error}: over HTTP only this project's tools can be changed; their owner does it with go-ent tool"
                )
            except AdvisedError as error:
                return failed(error.told(in_tools))
            except ValidationError as error:
                return failed(explain(error))
            except OSError as error:  # a full disk, a read-only one: the path is the log's business
                log.warning("%s could not be done: %s", tool.__name__, error)
                said = f"{error.strerror or type(error).__name__}: this could not be done, or not be recorded"
                return failed(joined(said, Advice("diagnose"), in_tools))
            except Exception:
                if not current().name:
                    raise
                log.exception("%s failed", tool.__name__)  # what it says may be nobody's business who has only a token
                return failed(
                    f"{tool.__name__} failed inside the server, whose log says why: not by anything in this call"
                )

        return answer

    return decorate


def allow(wants: Wants | None) -> None:
    """Refuse a caller who may not do that."""
    caller = current()
    if wants == "compose" and not caller.may_compose:
        raise NotAllowed(
            f"client {caller.name} may not change composed tools: [serve.clients.{caller.name}] has no compose = true"
        )
    if wants == "agents" and not caller.may_run_agents:
        raise NotAllowed(
            f"client {caller.name} may not use the engine: [serve.clients.{caller.name}] has no engine = true"
        )


def _hint(run: CodeRun) -> str | None:
    """What to do about a run's error. The guest, which makes the hint, knows the tools that were listed when it
    began: no more.
    """
    assert run.error is not None
    if run.calls and (failed_call := run.calls[-1].error):
        kind, _, message = failed_call.partition(": ")
        if kind in ("NotGranted", "UnknownTool") and message in run.error.message:
            if GRANT_IT in message:
                return GRANT_IT
            offered = run.error.hint or ""
            return offered if "available: tools." in offered else "tool_search finds the tools that are granted"
    return run.error.hint_in(in_tools)


def of_code(run: CodeRun) -> ToolResult:
    """A run of code that the caller wrote. What the names in it stood for is theirs to know; a tool's are not."""
    return of_run(run, values=True)


def of_run(run: CodeRun, *, values: bool = False) -> ToolResult:
    """A run as a result: what a model needs of it, and no more. Every field is bounded. With *values*, an error says
    what the names in the line that failed stood for.
    """
    made: dict[str, Any] = {"execution_id": run.id, "status": run.status}
    if run.status == "completed":
        made["result"] = run.result
    if run.stdout:
        made["stdout"] = cut(run.stdout)
    if run.error is not None:
        made["error"] = _error_text(run.error, values=values)
        if hint := _hint(run):
            made["hint"] = cut(hint)
    if run.pending:
        made["pending"] = [
            {**one.model_dump(mode="json"), "arguments": short(one.arguments)} for one in run.pending[:20]
        ]
        made.setdefault("hint", decide_hint(run.id))
    if run.status == "interrupted":
        made.setdefault("hint", "engine_resume goes on")
    if run.help:
        made["help"] = run.help
    if run.warning:
        made["warning"] = cut(run.warning)
    if run.usage.tool_calls:
        made["usage"] = {"wall_ms": round(run.usage.wall_ms, 1), "tool_calls": run.usage.tool_calls}
    if run.files:
        made["files"] = media.listed(run)
        if any(one.kind == "file" for one in run.media) and not current().name:  # nothing that a client shows by itself
            made.setdefault("hint", f"go-ent output {short_id(run.id)} --out DIR saves the files")
    answer = ToolResult(content=_words(made), structured_content=made, is_error=OUTCOMES[run.status].is_error)
    if run.files:
        answer.content += media.blocks(run)
    return answer


def _error_text(error: RunError, *, values: bool) -> str:
    """With *values*, what names stood for is on one line: the beginning of each, and of all of them."""
    text = cut((error.traceback or f"{error.kind}: {error.message}").strip())
    if not values or not error.values:
        return text
    said = ", ".join(f"{name} = {_begun(value, MAX_VALUE)}" for name, value in error.values.items())
    return f"{text}\nwhere {_begun(' '.join(said.split()), MAX_VALUES)}"


def _begun(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _words(made: dict[str, Any]) -> str:
    """A run as a model reads it: JSON, or with its result as a table below. What it took is for programs."""
    told = {key: value for key, value in made.items() if key != "usage"}
    written = to_json(told, inf_nan_mode="null").decode()
    table = as_table(told.get("result"))
    if table is None:
        return written
    records = len(told.pop("result"))
    shorter = f"{to_json(told, inf_nan_mode='null').decode()}\nresult, {records} records as CSV:\n{table}"
    return shorter if len(shorter) < len(written) else written


def of_result(result: TaskResult, state: ExecutionState | None = None) -> ToolResult:
    """What work came to, as a model needs it: every field bounded. Of what rests, the *state* says why."""
    made: dict[str, Any] = {"execution_id": result.execution_id, "status": result.status, "output": cut(result.output)}
    made["strategy"] = f"{result.strategy}: {result.strategy_reason}"
    if result.error:
        made["error"] = cut(result.error)
    if result.metrics is not None:
        made["metrics"] = result.metrics.model_dump(mode="json")
    for name in ("files_modified", "observations", "adjustments"):
        if found := getattr(result, name):
            made[name] = [cut(one) for one in found[:50]]
    made["steps"] = [
        {
            "id": step.task_id,
            "status": step.status,
            "runtime": step.runtime or "",
            "reason": step.runtime_reason,
            "error": cut(step.error or ""),
        }
        for step in result.steps[:100]
    ]
    links = [link for step in result.steps for link in media.step_links(step, f"{step.task_id}/")]
    paused = any(step.status == "paused" for step in result.steps)
    if paused and state is not None:
        made |= _waiting(state)
    elif not result.ok and state is not None and state.resumable:
        made["hint"] = "call engine_resume to continue"
    answer = ToolResult(structured_content=made, is_error=not result.ok and not paused)
    answer.content += links[: media.MOST_LINKED]
    return answer


def of_state(state: ExecutionState) -> ToolResult:
    """Where an execution stands."""
    made: dict[str, Any] = {
        "execution_id": state.id,
        "status": state.status,
        "title": state.title,
        "resumable": state.resumable,
    }
    made |= {"tool_calls": state.calls, "spent_tokens": state.spent_tokens}
    if state.spent_usd is not None:
        made["spent_usd"] = state.spent_usd
    if state.error:
        made["error"] = cut(state.error)
    if state.result is not None:
        made["output"] = cut(state.result.output)
    if state.requests:
        made |= _waiting(state)
    elif state.status in ("paused", "interrupted") and state.resumable:
        made["hint"] = "engine_resume goes on"
    if state.checkpoints:
        made["checkpoints"] = [
            {"number": one.seq, "label": one.label, "value": short(one.value)} for one in state.checkpoints[-10:]
        ]
    if state.context:
        made["summaries"] = [
            one.model_dump(exclude={"at"}, exclude_none=True) | {"scope": cut(one.scope, MAX_SCOPE)}
            for one in state.context[-10:]
        ]
    made["steps"] = [
        {"id": step, "status": one.status, "error": cut(one.error or "")}
        for step, one in list(state.results.items())[:100]
    ]
    made["steps"] += [{"id": step, "status": "running"} for step in state.running[:100]]
    answer = ToolResult(structured_content=made)
    of_steps = state.kind not in ("code", "tool")  # those are one run each
    found = [
        link for step, one in state.results.items() for link in media.step_links(one, f"{step}/" if of_steps else "")
    ]
    answer.content += found[: media.MOST_LINKED]
    return answer


def _waiting(state: ExecutionState) -> dict[str, Any]:
    pending = [_pending(path, request) for path, request in list(state.requests.items())[:20]]
    return {"pending": pending, "hint": decide_hint(state.id)}


def _pending(path: str, request: Request) -> dict[str, Any]:
    arguments = "too long to be shown" if request.arguments is None else short(request.arguments)
    return {"call": path, "tool": request.tool, "arguments": arguments, "reason": request.reason}


def decide_hint(execution_id: str) -> str:
    person = f"engine_approve, or go-ent approve {short_id(execution_id)}"
    return f"a person must decide: {person}; then engine_resume goes on"


def cut(value: str, most: int = MAX_CHARS) -> str:
    """The beginning and the end of a long text."""
    if len(value) <= most:
        return value
    return f"{value[: most // 2]}\n… [cut: {len(value) - most} characters; print less] …\n{value[-most // 2 :]}"


def short(value: Any) -> Any:
    """A value, or the beginning of its JSON if that is long."""
    made = json.dumps(value, ensure_ascii=False, default=str)
    return value if len(made) <= MAX_CHARS else f"{made[:MAX_CHARS]}…"
