"""From how a guest ended to the `Run` its caller gets."""

from __future__ import annotations

import binascii
import re
import time
from collections.abc import Mapping
from typing import Any

from go_ent.sandbox.host.broker import Broker
from go_ent.sandbox.host.flight import Job, Landing
from go_ent.sandbox.host.limits import Limits
from go_ent.sandbox.host.run import Run, RunError, Status, Usage
from go_ent.sandbox.images import Image
from go_ent.sandbox.messages.advice import Advice
from go_ent.sandbox.worker.names import FILE_NAME, MAX_FILES, MAX_NAME
from go_ent.sandbox.worker.outside import holds_at_most, parse, parse_gently
from go_ent.sandbox.worker.wire import ANSWER_HEAD, ANSWER_INDEX, answer_room

MARKER = b"\n[output cut: more than "
# What a guest may say of itself, and what it then says besides: an error is told by one that has failed, and by no
# other.
GUEST_STATUSES: dict[str, tuple[frozenset[str], ...]] = {
    "completed": (frozenset(), frozenset(("size",))),
    "error": (frozenset(("error",)),),
    "refused": (frozenset(("error",)),),
    "memory_limit": (frozenset(),),
    "result_limit": (frozenset(("size",)),),
}
LARGE = 1 << 17  # what takes a while to read
SHORT = 1 << 12  # what takes less time to read than a look at the clock is worth
PIECE = 1 << 20  # of base64
# Why the host stopped a guest, and the status that is.
REASONS: dict[str, Status] = {
    "timeout": "timeout",
    "cpu_limit": "cpu_limit",
    "call_limit": "call_limit",
    "paused": "paused",
    "interrupted": "interrupted",
    "blocked": "error",
    "random": "error",
    "diverged": "error",
    "journal": "crashed",
    "protocol": "crashed",
    "outside": "crashed",
}
TRAPS: dict[str, Status] = {"fuel": "fuel_limit", "stack": "error"}


def status_of(landing: Landing) -> Status:
    """The status of a run that did not answer, or `completed`."""
    end = landing.end
    if end.reason is not None:
        return REASONS.get(end.reason, "crashed")
    if end.trap is not None:
        return TRAPS.get(end.trap, "crashed")
    return "completed"


def is_large(landing: Landing) -> bool:
    """Whether `build` is for a thread."""
    return len(landing.end.answer or b"") + len(landing.stdout) > LARGE


def build(
    run_id: str,
    landing: Landing,
    broker: Broker | None,
    job: Job,
    files: Mapping[str, bytes],
    image: Image,
    wall_ms: float,
) -> Run:
    """The `Run`. What a guest answered is text from outside: read with care, and believed only as far as it fits."""
    limits = job.limits
    before = time.thread_time_ns() if len(landing.end.answer or b"") > SHORT else None
    stdout = landing.stdout.decode("utf-8", "replace")
    usage = Usage(
        wall_ms=round(wall_ms, 3),
        fuel=landing.fuel,
        memory_peak_bytes=landing.memory,
        tool_calls=broker.made if broker is not None else 0,
        stdout_bytes=len(landing.stdout),
    )
    run = Run(
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
            _read_answer(run, landing.end.answer, job, files)
        except Exception:  # whatever a broken guest may have written
            run.status, run.result, run.files = "crashed", None, {}
            run.error = RunError(kind="crashed", message="the guest answered with something that is not an answer")
        if run.error is not None and run.error.message == THROWN_NULL and _memory_was_full(landing, job, image):
            run.status, run.error = "memory_limit", None
    elif landing.end.trap is not None and run.status == "crashed" and _memory_was_full(landing, job, image):
        run.status = "memory_limit"
    if run.status != "completed" and run.error is None:
        run.error = _explain(run, landing, limits)
    reading_ns = 0 if before is None else time.thread_time_ns() - before
    run.usage.cpu_ms = round((landing.cpu_ns + reading_ns) / 1e6, 3)
    return run


def _memory_was_full(landing: Landing, job: Job, image: Image) -> bool:
    """Whether a guest that broke did so for want of memory: it had taken all, or its request alone was too large."""
    if landing.end.trap == "died" or job.limits.memory_mb is None:
        return False
    most = job.limits.memory_mb << 20
    return landing.memory >= most - (1 << 20) or 4 * len(job.request) > most - image.memory_bytes


def _read_answer(run: Run, answer: bytes | bytearray, job: Job, files: Mapping[str, bytes]) -> None:
    """An answer is JSON of how it went, the result, also JSON, and the files, with NULs between."""
    limits = job.limits
    if len(answer) > answer_room(limits.max_result_bytes, limits.max_file_bytes):
        raise ValueError("more than allowed")
    first = answer.index(b"\x00")
    second = answer.index(b"\x00", first + 1)
    head, result = answer[:first], answer[first + 1 : second]
    if not holds_at_most(head, MAX_FIELDS):
        raise ValueError("more than a guest says")
    fields: dict[str, Any] = parse(head, ANSWER_HEAD)
    status = fields["status"]
    if fields.keys() - {"status"} not in GUEST_STATUSES[status] or (result and status != "completed"):
        raise ValueError(status)
    run.status = status
    if "error" in fields:
        run.error = RunError.model_validate({name: _cut(name, value) for name, value in fields["error"].items()})
        _advise_on_files(run.error)
    if status == "completed":
        run.result_truncated = "size" in fields  # then the result is the beginning of its JSON text
        run.usage.result_bytes = _size(fields, limits) if run.result_truncated else len(result)
        try:
            run.result = parse_gently(result, limits.max_result_bytes)
        except ValueError as error:
            run.status = "error"
            run.error = RunError(kind="NotEncodable", message=f"result: it can't be read as JSON: {str(error)[:200]}")
    elif status == "result_limit":
        run.error = RunError(
            kind="result_limit",
            message=f"the result is {_size(fields, limits)} bytes of JSON; max_result_bytes={limits.max_result_bytes}",
            hint="return less: a part, a summary, or a file",
        )
    if len(answer) > second + 1:
        _read_files(run, answer, second + 1, job, files)


def _advise_on_files(error: RunError) -> None:
    """A file of the host can be given to the run; how, each front end says in its own words."""
    if error.kind == "FileNotFoundError" and not error.hint and (found := MISSING.search(error.message)):
        error.advise(Advice("pass_file", found[1]))
    elif error.kind == "PolicyRefusal" and (found := OUTSIDE.match(error.message)):
        error.advise(Advice("pass_file", found[1]), "use a relative name")


def _size(fields: Mapping[str, Any], limits: Limits) -> int:
    """How long the result is that a guest has not sent: longer than allowed, or there was no reason not to send it."""
    size = fields["size"]
    if type(size) is not int or limits.max_result_bytes is None or not limits.max_result_bytes < size < 1 << 32:
        raise ValueError("not the size of a result")
    return size


MAX_FIELDS = 1000
MOST_VALUES, MAX_VALUE = 8, 200
THROWN_NULL = "thrown: null"  # JavaScript that has no room left, not even for an exception
MISSING = re.compile(r"No such file or directory: '([A-Za-z0-9_./ -]{1,200})'$")
OUTSIDE = re.compile(r"open of '([A-Za-z0-9_./ -]{1,200})' is refused: only the run's own files can be opened$")
_MOST = {"kind": 200, "message": 5000, "source_line": 1000, "traceback": 25000, "hint": 5000}


def _cut(name: str, value: Any) -> Any:
    if name == "values" and isinstance(value, dict):
        return {
            one[:MAX_VALUE]: text[:MAX_VALUE] for one, text in list(value.items())[:MOST_VALUES] if type(text) is str
        }
    return value[: _MOST[name]] if isinstance(value, str) and name in _MOST else value


def _read_files(run: Run, answer: bytes | bytearray, at: int, job: Job, files: Mapping[str, bytes]) -> None:
    """The names: of files that changed, with the length of their base64, and of those that did not. Then the
    former's base64.
    """
    most = job.limits.max_file_bytes
    end = answer.index(b"\x00", at, at + ANSWER_INDEX)
    index = answer[at:end]
    if not holds_at_most(index, 2 * MAX_FILES):
        raise ValueError("more files than a run may have")
    changed, kept = parse(index, None)
    names = [*changed, *kept]
    if (
        len(names) > MAX_FILES
        or len(set(names)) != len(names)
        or not all(map(_is_name, names))
        or type(kept) is not list
    ):
        raise ValueError("not the files of the run's folder")
    if not job.session and not files.keys() >= set(kept):
        raise ValueError("files that were not passed")
    at, total = end + 1, 0
    with memoryview(answer) as view:
        for name, size in changed.items():
            if type(size) is not int or not 0 <= size <= len(answer) - at:
                raise ValueError("not the length of a file")
            run.files[name] = b"".join(
                binascii.a2b_base64(view[piece : min(piece + PIECE, at + size)], strict_mode=True)
                for piece in range(at, at + size, PIECE)
            )
            at += size
            total += len(run.files[name])
    if at != len(answer) or (most is not None and total > most):
        raise ValueError("more than allowed")
    for name in kept:
        if name in files:  # in a session there are others, of earlier runs
            value = files[name]
            run.files[name] = value.encode() if isinstance(value, str) else bytes(value)


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and len(name) <= MAX_NAME and FILE_NAME.fullmatch(name) is not None


def _explain(run: Run, landing: Landing, limits: Limits) -> RunError:
    status, end = run.status, landing.end
    spent = {
        "timeout": ("timeout_s", "the run took longer than", "do less"),
        "cpu_limit": ("cpu_s", "the run used more CPU than", "look for an endless loop, do less"),
        "fuel_limit": ("fuel", "the run used up", "do less"),
        "memory_limit": ("memory_mb", "the run needed more memory than", "work in smaller pieces"),
        "call_limit": ("max_tool_calls", "the run made more tool calls than", "make fewer calls"),
    }
    if status == "call_limit" and landing.problem:
        return RunError(kind=status, message=landing.problem, hint="make fewer")
    if status in spent:
        limit, message, hint = spent[status]
        error = RunError(kind=status, message=f"{message} {limit}={getattr(limits, limit)}")
        return error.advise(Advice("raise_limit", limit), hint)
    if status == "paused":
        return RunError(kind=status, message="the run waits for approval")
    if status == "interrupted":
        return RunError(kind=status, message="the run was interrupted")
    if end.reason == "diverged":
        return RunError(
            kind="Diverged",
            message=landing.problem or "the run does something else than the recorded one, or its record is broken",
            hint="run it anew, or resume it with the code, inputs and image that it was begun with",
        )
    if end.reason == "journal":
        return RunError(
            kind="NotRecorded",
            message=f"the run can't be recorded: {landing.problem}",
            hint="make room where executions are kept, then resume it: nothing that is recorded is done again",
        )
    if end.reason == "blocked":
        return RunError(
            kind="BlockingCall",
            message="the code waited in a way that can't be interrupted",
            hint="use time.sleep or asyncio",
        )
    if end.reason == "random":
        return RunError(
            kind="ValueError", message="more than 1 MiB of random bytes were asked for at once", hint="ask for less"
        )
    if end.trap == "stack":
        return RunError(
            kind="RecursionError",
            message="the code nests or recurses too deeply: the stack is exhausted",
            hint="use a loop instead of recursion",
        )
    what = "its worker died" if end.trap == "died" else f"the guest broke: {end.trap or end.reason}"
    return RunError(
        kind="crashed", message=f"the run was lost: {what}", hint="it can be run again; nothing else was affected"
    )
