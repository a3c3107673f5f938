"""From how a guest ended to the `Run` its caller gets."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from sandbox.broker import Broker
from sandbox.flight import Landing
from sandbox.images import Image
from sandbox.limits import Limits
from sandbox.run import Run, RunError, Status, Usage

MARKER = b"\n[output cut: more than "
GUEST_STATUSES = frozenset(("completed", "error", "refused", "memory_limit", "result_limit"))
# Why the host stopped a guest, and the status that is.
REASONS: dict[str, Status] = {
    "timeout": "timeout",
    "cpu_limit": "cpu_limit",
    "call_limit": "call_limit",
    "paused": "paused",
    "interrupted": "interrupted",
    "blocked": "error",
    "random": "error",
    "protocol": "crashed",
    "outside": "crashed",
}
TRAPS: dict[str, Status] = {"fuel": "fuel_limit", "stack": "error", "interrupt": "interrupted"}


def status_of(landing: Landing) -> Status:
    """The status of a run that did not answer, or `completed`."""
    end = landing.end
    if end.reason is not None:
        return REASONS.get(end.reason, "crashed")
    if end.trap is not None:
        return TRAPS.get(end.trap, "crashed")
    return "completed"


def build(
    run_id: str,
    landing: Landing,
    broker: Broker | None,
    limits: Limits,
    files: Mapping[str, bytes],
    image: Image,
    wall_ms: float,
) -> Run:
    """The `Run`. What a guest answered is text from outside: read with care, and believed only as far as it fits."""
    stdout = landing.stdout.decode("utf-8", "replace")
    usage = Usage.model_construct(
        wall_ms=round(wall_ms, 3),
        cpu_ms=round(landing.cpu_ns / 1e6, 3),
        fuel=landing.fuel,
        memory_peak_bytes=landing.memory,
        tool_calls=broker.made if broker is not None else 0,
        stdout_bytes=len(landing.stdout),
    )
    run = Run.model_construct(
        id=run_id,
        status=status_of(landing),
        stdout=stdout,
        stdout_truncated=MARKER in landing.stdout[-128:]
        if limits.max_stdout_bytes is not None and len(landing.stdout) >= limits.max_stdout_bytes
        else False,
        usage=usage,
        calls=broker.calls if broker is not None else [],
        pending=broker.pending if broker is not None else [],
        files={},
        image=image.digest,
    )
    if landing.end.answer is not None:
        try:
            _read_answer(run, landing.end.answer, limits, files)
        except (ValueError, TypeError, KeyError, ValidationError, binascii.Error):
            run.status, run.result, run.files = "crashed", None, {}
            run.error = RunError(kind="crashed", message="the guest answered with something that is not an answer")
    elif landing.end.trap is not None and run.status == "crashed" and _memory_was_full(landing, limits):
        run.status = "memory_limit"
    if run.status != "completed" and run.error is None:
        run.error = _explain(run, landing, limits)
    return run


def _memory_was_full(landing: Landing, limits: Limits) -> bool:
    return landing.end.trap != "died" and limits.memory_mb is not None and landing.memory >= (limits.memory_mb << 20) - (1 << 20)


def _read_answer(run: Run, answer: bytes, limits: Limits, files: Mapping[str, bytes]) -> None:
    fields: dict[str, Any] = from_json(answer, allow_inf_nan=True)
    status = fields["status"]
    if status not in GUEST_STATUSES:
        raise ValueError(status)
    run.status = status
    if status == "completed":
        if limits.max_result_bytes is not None and len(answer) > limits.max_result_bytes + 3 * (limits.max_file_bytes or 0) + 65536:
            raise ValueError("longer than its limit")
        run.result = fields.get("result")
    elif status == "result_limit":
        size = fields.get("result")
        run.error = RunError(
            kind="result_limit",
            message=f"the result is {size} bytes of JSON; max_result_bytes={limits.max_result_bytes}",
            hint="return less: a part, a summary, or a file",
        )
    if "error" in fields:
        run.error = RunError.model_validate(fields["error"])
    _read_files(run, fields, limits, files)


def _read_files(run: Run, fields: dict[str, Any], limits: Limits, files: Mapping[str, bytes]) -> None:
    total = 0
    for name, data in fields.get("files", {}).items():
        content = base64.b64decode(data, validate=True)
        total += len(content)
        if not isinstance(name, str) or name.startswith("/") or ".." in name.split("/") or "\x00" in name:
            raise ValueError("a file outside the run's folder")
        if (limits.max_file_bytes is not None and total > limits.max_file_bytes) or len(run.files) >= 1000:
            raise ValueError("more files than allowed")
        run.files[name] = content
    for name in fields.get("kept", ()):
        if name in files:
            value = files[name]
            run.files[name] = value.encode() if isinstance(value, str) else bytes(value)


def _explain(run: Run, landing: Landing, limits: Limits) -> RunError:
    status, end = run.status, landing.end
    messages: dict[str, tuple[str, str | None]] = {
        "timeout": (f"the run took longer than timeout_s={limits.timeout_s}", "do less, or raise timeout_s"),
        "cpu_limit": (f"the run used more CPU than cpu_s={limits.cpu_s}", "look for an endless loop, do less, or raise cpu_s"),
        "fuel_limit": (f"the run used up fuel={limits.fuel}", "do less, or raise fuel"),
        "memory_limit": (f"the run needed more memory than memory_mb={limits.memory_mb}", "work in smaller pieces, or raise memory_mb"),
        "call_limit": (
            f"the run made more tool calls than max_tool_calls={limits.max_tool_calls}",
            "make fewer calls, or raise max_tool_calls",
        ),
        "paused": ("the run waits for approval", None),
        "interrupted": ("the run was interrupted", None),
    }
    if status in messages:
        message, hint = messages[status]
        return RunError(kind=status, message=message, hint=hint)
    if end.reason == "blocked":
        return RunError(kind="BlockingCall", message="the code waited in a way that can't be interrupted", hint="use time.sleep or asyncio")
    if end.reason == "random":
        return RunError(kind="ValueError", message="more than 1 MiB of random bytes were asked for at once", hint="ask for less")
    if end.trap == "stack":
        return RunError(
            kind="RecursionError",
            message="the code nests or recurses too deeply: the stack is exhausted",
            hint="use a loop instead of recursion",
        )
    what = "its worker died" if end.trap == "died" else f"the guest broke: {end.trap or end.reason}"
    return RunError(kind="crashed", message=f"the run was lost: {what}", hint="it can be run again; nothing else was affected")
