"""`go-ent logs`: what an execution has done, record by record, in words; `--json` has the records as they are."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic_core import to_json

from go_ent.engine.cli.commands.choosing import OptionalId, meant_or_last
from go_ent.engine.cli.commands.shared import JsonFlag
from go_ent.engine.cli.terminal.output import STYLES, Style, is_rich, say, short, show_json, took
from go_ent.engine.cli.terminal.tables import console, fitted
from go_ent.engine.executions.store import ExecutionStore

Line = tuple[str, str, Style | None] | None  # the word, what is said, and its colour
FOLLOW_S = 0.2
MOST_SHOWN = 300  # characters of a line
# What a replay needs, and people do not.
UNSEEN = frozenset(
    "seq at kind crc heard seed digest state wall_ns image source compiled path step version seal".split()
)


def logs_command(
    execution: OptionalId = None,
    /,
    *,
    follow: Annotated[
        bool, Parameter(name=["--follow", "-f"], negative="", help="Keep printing until the execution ends.")
    ] = False,
    json_: JsonFlag = False,
) -> int:
    """What an execution has done, one line for each thing. --json prints the journal's records themselves.

    Example: go-ent logs last --follow
    """
    store, execution_id = meant_or_last(execution)
    words = _Words()
    for record in _records(store, execution_id, follow=follow):
        if json_:
            _show_record(record)
        else:
            try:
                words.tell(record)
            except (ValueError, TypeError, AttributeError, ArithmeticError, OSError, RecursionError) as error:
                say(f"record {record['seq']} can't be shown: {type(error).__name__}")
        sys.stdout.flush()
    return 0


def _show_record(record: dict[str, Any]) -> None:
    try:
        show_json(to_json(record, inf_nan_mode="null").decode())
    except (ValueError, TypeError, RecursionError) as error:
        said = f"record {record['seq']} can't be shown: {type(error).__name__}"
        show_json(json.dumps({"seq": record["seq"], "kind": "unreadable", "text": said}))


def _records(store: ExecutionStore, execution_id: str, *, follow: bool) -> Iterator[dict[str, Any]]:
    offset = 0
    while True:
        over = not follow or store.load(execution_id).status not in ("running", "pending")
        before = offset
        found, offset = store.read_from(execution_id, offset)
        if offset <= before:  # nothing new, or a journal that begins anew: what of it was told is not told again
            found, offset = [], before
        yield from found
        if over and not found:
            return
        if found:
            continue
        time.sleep(FOLLOW_S)


class _Words:
    """The records of one execution, in words: a call's answer is named and timed by its call."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, float]] = {}
        self._begun: set[str] = set()

    def tell(self, record: dict[str, Any]) -> None:
        at = float(record.get("at", 0))
        line = self._said(record, at)
        if line is None:
            return
        words, said, style = line
        clock = time.strftime("%H:%M:%S", time.localtime(at))
        begin = f"{clock}.{int(at * 1000) % 1000:03}  "
        rest = f"{' ' * max(0, 10 - len(words))} {short(said)[:MOST_SHOWN]}".rstrip()
        if is_rich(sys.stdout):
            rest = fitted(rest, max(0, console().width - len(begin) - len(words)))
        say(begin, end="")
        say(words, end="" if rest else "\n", style=style)
        if rest:
            say(rest)

    def _said(self, record: dict[str, Any], at: float) -> Line:
        where = str(record.get("path") or record.get("step") or "")
        kind = str(record["kind"])
        if kind == "answer":
            return self._answer(record.get("answer"), where, at)
        if kind == "call":
            self._calls[where] = str(record.get("tool", "")), at
        if kind in ("try", "guest"):
            if kind == "guest" and (where in self._begun or "/" in where):  # of a call, its own line tells
                return None
            self._begun.add(where)
        words = WORDS.get(kind)
        if words is not None:
            return words(record, where)
        rest = {name: value for name, value in record.items() if name not in UNSEEN}
        return kind, f"{where} {_text(rest) if rest else ''}".strip(), None

    def _answer(self, answer: Any, where: str, at: float) -> Line:
        tool, begun = self._calls.pop(where, ("", at))
        what = f"{where}  {tool}, {took(at - begun)}"
        if not (isinstance(answer, list) and len(answer) == 3):
            return "cancelled", what, "dim"
        if answer[1] != 1:
            said = answer[2].get("message", "") if isinstance(answer[2], dict) else ""
            return "failed", f"{what}: {said}", "red"
        text = _text(answer[2])
        return "answers", f"{what}  {_size(text)}{text}", None


def _arguments(found: Any) -> str:
    if not (isinstance(found, list) and len(found) == 2 and isinstance(found[0], list) and isinstance(found[1], dict)):
        return ""
    return ", ".join([*map(_text, found[0]), *(f"{name}={_text(value)}" for name, value in found[1].items())])


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _size(text: str) -> str:
    """How much there is of it, where a line does not show it all."""
    size = len(text.encode(errors="replace"))
    if size <= 60 and "\n" not in text.strip():
        return ""
    return f"[{size:,} bytes] " if size < 10_000 else f"[{size / 1000:,.0f} kB] "


def _created(record: dict[str, Any], where: str) -> Line:
    return "created", str((record.get("state") or {}).get("title", "")), None


def _status(record: dict[str, Any], where: str) -> Line:
    changes = record.get("changes") or {}
    status, error = str(changes.get("status", "")), changes.get("error")
    return status or "status", str(error) if error else "", STYLES.get(status)


def _try(record: dict[str, Any], where: str) -> Line:
    number, runtime = record.get("try", 1), str(record.get("runtime") or "cli")
    on = "" if runtime == "cli" else f" on {runtime}"
    return "begins", f"{where}{on}{f', try {number}' if number != 1 else ''}", None


def _step(record: dict[str, Any], where: str) -> Line:
    result = record.get("result") or {}
    status = str(result.get("status"))
    error, output = result.get("error"), str(result.get("output") or "")
    cost = f", ${result['cost_usd']:.4f}" if result.get("cost_usd") else ""
    said = f": {error}" if error else f"  {_size(output)}{short(output)}" if output else ""
    return status, f"{where}, {took(float(result.get('duration_ms') or 0) / 1000)}{cost}{said}", STYLES.get(status)


def _line(record: dict[str, Any], where: str) -> Line:
    """One of many lines: what its run came to."""
    run, status = record.get("run") or {}, str(record.get("status"))
    error, result = run.get("error"), run.get("result")
    text = result if isinstance(result, str) else _text(result)
    said = f": {error.get('message', '')}" if error else "" if result is None else f"  {_size(text)}{short(text)}"
    wall_ms = float((run.get("usage") or {}).get("wall_ms") or 0)
    return status, f"{record.get('n', '')}, {took(wall_ms / 1000)}{said}", STYLES.get(status)


def _call(record: dict[str, Any], where: str) -> Line:
    return "calls", f"{where}  {record.get('tool', '')}({_arguments(record.get('arguments'))})", None


def _printed(record: dict[str, Any], where: str) -> Line:
    text = str(record.get("text", ""))
    return "prints", f"{where}  {_size(text)}{short(text)}", None


def _asked(record: dict[str, Any], where: str) -> Line:
    return "asks", f"{where}  {record.get('tool', '')}: {record.get('reason', '')}", "yellow"


def _decided(record: dict[str, Any], where: str) -> Line:
    said = f"{where}: {record['comment']}" if record.get("comment") else where
    return "approved" if record.get("approved") else "rejected", said, "yellow"


def _used(record: dict[str, Any], where: str) -> Line:
    cpu, memory = (float(record.get(name) or 0) for name in ("cpu_ms", "memory_bytes"))
    return "used", f"{where}, {took(cpu / 1000)} of CPU, {memory / 1e6:,.0f} MB", "dim"


def _checkpoint(record: dict[str, Any], where: str) -> Line:
    return "checkpoint", f"{record.get('label', '')}: {_text(record.get('value'))}", None


WORDS: dict[str, Callable[[dict[str, Any], str], Line]] = {
    "created": _created,
    "status": _status,
    "try": _try,
    "guest": _try,
    "step_finished": _step,
    "call": _call,
    "printed": _printed,
    "progress": _printed,
    "asked": _asked,
    "decided": _decided,
    "used": _used,
    "checkpoint": _checkpoint,
    "line": _line,
}
