"""What an execution has done, as spans of time: its steps and the calls that they made, brought up to date by records.

It is made record by record, so that one which runs is followed without reading it again. Values are not in it: a span
knows where in the journal they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any

from pydantic_core import to_json

from go_ent.composer.project.numbers import whole
from go_ent.dataclass import dataclass
from go_ent.engine.executions.storage import Record
from go_ent.sandbox.host.broker import CHECKPOINT

MAX_SPANS = 200_000
MAX_DEPTH = 20
MAX_ARGUMENTS = 160  # characters of arguments on a span
MAX_ERROR = 500
MAX_NAME = 300
MAX_OUTPUT = 300
MAX_PRINTED = 1 << 20
MAX_FILE_RECORDS = 10_000


@dataclass(slots=True)
class Span:
    """A step or a call. *end* is None while it is under way, or when it was left unfinished."""

    path: str
    name: str
    kind: str  # step or call
    seq: int  # of the record that began it
    at: float
    status: str = "running"
    end: float | None = None
    arguments: str = ""
    argument_bytes: int | None = None
    answer_bytes: int | None = None
    error: str = ""
    output: str = ""  # the first line of what it came to
    runtime: str = ""
    tries: int = 1
    cost_usd: float | None = None
    tokens: int | None = None
    begun_at: int | None = None  # where in the journal to read it, and its answer
    ended_at: int | None = None
    reason: str = ""  # why it was asked about
    comment: str = ""  # what was said when that was decided
    works_since: float = 0.0  # what it waited for before is not its own time
    more: int = 0  # calls below it that are left out

    @property
    def depth(self) -> int:
        return self.path.count("/")

    @property
    def ms(self) -> float | None:
        """How long it worked."""
        return None if self.end is None else round(max(0.0, self.end - max(self.at, self.works_since)) * 1000, 3)


@dataclass(slots=True)
class Timeline:
    """The spans of one execution, and what else its records say. Not thread-safe."""

    most_calls: int = MAX_SPANS
    spans: dict[str, Span] = field(default_factory=dict)  # by path
    undone: list[Span] = field(default_factory=list)
    left_out: int = 0  # calls beyond what is held
    printed: dict[str, str] = field(default_factory=dict)  # by step
    used: dict[str, dict[str, Any]] = field(default_factory=dict)  # by step
    files: list[Record] = field(default_factory=list)  # the records that tell of files, and were not undone
    records: int = 0
    seq: int = 0
    first: float = 0.0
    last: float = 0.0
    _order: list[Span] | None = None
    _calls: int = 0

    def add(self, records: Iterable[Record], place: int = 0) -> None:
        """Take more records in; *place* is from where in the journal they were read. What can't be read is passed
        over: it is somebody else's to tell.
        """
        for record in records:
            try:
                self._add(record, place)
            except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
                continue

    def _add(self, record: Record, place: int) -> None:
        at = float(record.get("at") or 0.0)
        self.records += 1
        self.seq = max(self.seq, int(record["seq"]))
        self.first, self.last = self.first or at, max(self.last, at)
        take = _TAKES.get(str(record["kind"]))
        if take is not None:
            take(self, record, at, place)

    def ordered(self) -> list[Span]:
        """All spans: steps as they began, calls below what made them."""
        if self._order is None:
            began = {span.path: number for number, span in enumerate(self.spans.values()) if span.depth == 0}
            self._order = sorted(self.spans.values(), key=lambda span: _key(span.path, began))
        return self._order

    def settle(self, *, running: bool) -> None:
        """Of an execution that does not run, what has no end was left unfinished."""
        for span in self.spans.values():
            if not running and span.status == "running" and span.end is None:
                span.status = "unfinished" if span.kind == "call" else "interrupted"

    def _put(self, span: Span) -> None:
        is_call = span.kind == "call"
        if span.path not in self.spans:
            if len(self.spans) >= MAX_SPANS or (is_call and self._calls >= self.most_calls):
                self.left_out += 1
                if (above := self.spans.get(span.path.rpartition("/")[0])) is not None:
                    above.more += 1
                return
            self._calls += is_call
        self.spans[span.path] = span
        self._order = None

    # -- by kind of record

    def _begins(self, record: Record, at: float, place: int) -> None:
        path = _path(record.get("step") or record.get("path"))
        span = self.spans.get(path)
        if span is None and "/" not in path:
            self._put(Span(path, path[:MAX_NAME], "step", record["seq"], at, begun_at=place))
            span = self.spans.get(path)
        if span is not None and span.kind == "step":
            if record["kind"] == "try":
                span.tries, span.runtime = int(record.get("try") or 1), str(record.get("runtime") or "")[:MAX_NAME]
            if span.end is not None or span.status != "running":  # it is resumed
                span.end, span.status, span.error = None, "running", ""

    def _ends(self, record: Record, at: float, place: int) -> None:
        path, result = _path(record["step"]), record["result"]
        began = at - float(result.get("duration_ms") or 0) / 1000
        if path not in self.spans:
            self._put(Span(path, path[:MAX_NAME], "step", record["seq"], began, begun_at=place))
        span = self.spans.get(path)
        if span is None:
            return
        span.end, span.ended_at, span.status = at, place, str(result.get("status") or "")
        span.works_since = began
        span.at = min(span.at, max(began, self.first)) if span.tries == 1 else span.at
        span.error = str(result.get("error") or "")[:MAX_ERROR]
        span.cost_usd = result.get("cost_usd") if isinstance(result.get("cost_usd"), int | float) else None
        span.runtime = str(result.get("runtime") or span.runtime)[:MAX_NAME]
        output = str(result.get("output") or "")
        span.output, span.answer_bytes = first_line(output), len(output.encode("utf-8", "replace"))
        tokens = result.get("tokens")
        if isinstance(tokens, dict):
            span.tokens = sum(value for value in tokens.values() if isinstance(value, int))
        span.tries = max(span.tries, len(result.get("attempts") or ()))

    def _call(self, record: Record, at: float, place: int) -> None:
        path = _path(record["path"])
        if record.get("tool") == CHECKPOINT or path.count("/") > MAX_DEPTH:
            return
        self._put(Span(path, str(record.get("tool") or "")[:MAX_NAME], "call", record["seq"], at, begun_at=place))
        if (span := self.spans.get(path)) is not None and (given := record.get("arguments")) is not None:
            span.arguments, span.argument_bytes = arguments_line(given), len(to_json(given, inf_nan_mode="constants"))

    def _begun(self, record: Record, at: float, place: int) -> None:
        span = self.spans.get(_path(record["path"]))
        if span is not None:
            span.works_since = at
            if span.status in ("approved", "unfinished"):
                span.status = "running"

    def _status(self, record: Record, at: float, place: int) -> None:
        """What is open when an execution goes on has rested until then."""
        if record["changes"].get("status") == "running":
            for span in self.spans.values():
                if span.end is None:
                    span.works_since = at

    def _answer(self, record: Record, at: float, place: int) -> None:
        span, answer = self.spans.get(_path(record["path"])), record.get("answer")
        if span is None:
            return
        span.end, span.ended_at = at, place
        if not (isinstance(answer, list) and len(answer) == 3):
            span.status = "cancelled"
        elif answer[1] != 1:
            said = answer[2] if isinstance(answer[2], dict) else {}
            span.error = f"{said.get('kind', '')}: {said.get('message', '')}".strip(": ")[:MAX_ERROR]
            span.status = "rejected" if span.status == "rejected" else "failed"
        else:
            span.status = "skipped" if span.status == "skipped" else "completed"
            span.answer_bytes = len(to_json(answer[2], inf_nan_mode="constants"))

    def _asked(self, record: Record, at: float, place: int) -> None:
        span = self.spans.get(_path(record["path"]))
        if span is not None:
            span.status, span.reason = "waits for approval", str(record.get("reason") or "")[:MAX_ERROR]

    def _decided(self, record: Record, at: float, place: int) -> None:
        span = self.spans.get(_path(record["path"]))
        if span is not None:
            span.status = "approved" if record.get("approved") else "rejected"
            span.comment, span.works_since = str(record.get("comment") or "")[:1000], at

    def _unfinished(self, record: Record, at: float, place: int) -> None:
        span = self.spans.get(_path(record.get("path") or record.get("step")))
        if span is not None and record.get("decided") == "skip":
            span.status = "skipped"

    def _undone(self, record: Record, at: float, place: int) -> None:
        after = record["after"]
        for path in [path for path, span in self.spans.items() if span.kind == "call" and span.seq > after]:
            span = self.spans.pop(path)
            span.status = "undone"
            self._calls -= 1
            self.undone = [*self.undone, span][-1000:]
        self.files = [one for one in self.files if one["seq"] <= after]
        self._order = None

    def _noted(self, record: Record, at: float, place: int) -> None:
        """Calls of a run in a session: told at its end, without times of their own."""
        began = at - sum(float(one.get("ms") or 0) for one in record["calls"]) / 1000
        for number, one in enumerate(record["calls"], 1):
            took = float(one.get("ms") or 0) / 1000
            span = Span(
                f"{_path(record['path'])}/{number}", str(one.get("name"))[:MAX_NAME], "call", record["seq"], began
            )
            span.end, span.begun_at, span.ended_at = began + took, place, place
            span.status = "failed" if one.get("error") else "completed"
            span.error, span.arguments = (
                str(one.get("error") or "")[:MAX_ERROR],
                arguments_line([[], one.get("arguments")]),
            )
            self._put(span)
            began += took

    def _line(self, record: Record, at: float, place: int) -> None:
        span = self.spans.get(str(record.get("n")))
        if span is None:
            return
        span.status, span.end = str(record.get("status")), at
        if isinstance(run := record.get("run"), dict):
            usage, error, result = run.get("usage"), run.get("error"), run.get("result")
            if isinstance(usage, dict) and isinstance(ms := usage.get("wall_ms"), int | float):
                span.works_since = at - ms / 1000
            span.error = str(error.get("message", ""))[:MAX_ERROR] if isinstance(error, dict) else ""
            text = result if isinstance(result, str) else to_json(result, inf_nan_mode="constants").decode()
            span.output = "" if result is None else first_line(text)

    def _printed(self, record: Record, at: float, place: int) -> None:
        self.printed[_path(record["step"])] = str(record.get("text") or "")[:MAX_PRINTED]

    def _used(self, record: Record, at: float, place: int) -> None:
        self.used[_path(record["step"])] = {name: record[name] for name in USED if name in record}

    def _files(self, record: Record, at: float, place: int) -> None:
        self.files.append(record)
        del self.files[:-MAX_FILE_RECORDS]


USED = ("cpu_ms", "wall_ms", "memory_bytes", "stdout_bytes", "line", "traceback", "values")
_TAKES = {
    "try": Timeline._begins,
    "guest": Timeline._begins,
    "status": Timeline._status,
    "step_finished": Timeline._ends,
    "call": Timeline._call,
    "begun": Timeline._begun,
    "answer": Timeline._answer,
    "asked": Timeline._asked,
    "decided": Timeline._decided,
    "unfinished": Timeline._unfinished,
    "undone": Timeline._undone,
    "calls": Timeline._noted,
    "line": Timeline._line,
    "printed": Timeline._printed,
    "used": Timeline._used,
    "files": Timeline._files,
}


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:MAX_OUTPUT]


def arguments_line(given: Any) -> str:
    """Arguments for people, on one line, and not much of them."""
    if not (isinstance(given, list) and len(given) == 2 and isinstance(given[0], list) and isinstance(given[1], dict)):
        return ""
    said: list[str] = []
    for name, value in [*(("", one) for one in given[0]), *given[1].items()]:
        shown = repr(value[:MAX_ARGUMENTS] if isinstance(value, str | list) else value)
        said.append(f"{name}={shown[:MAX_ARGUMENTS]}" if name else shown[:MAX_ARGUMENTS])
        if sum(map(len, said)) > MAX_ARGUMENTS:
            break
    text = ", ".join(said)
    return text if len(text) <= MAX_ARGUMENTS else f"{text[: MAX_ARGUMENTS - 1]}…"


def _path(found: Any) -> str:
    if not isinstance(found, str) or not found or len(found) > 1000:
        raise ValueError("a span has a path")
    return found


def _key(path: str, began: dict[str, int]) -> tuple[int, ...]:
    """Where a span stands: its step, then the numbers of the calls on the way to it."""
    step, *numbers = path.split("/")
    return began.get(step, len(began)), *(whole(number) or 0 for number in numbers)
