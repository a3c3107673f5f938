"""A run: what it was asked, what it did and when, what it came to, and what it used."""

from __future__ import annotations

import json
import re
from typing import Any

from starlette.responses import Response

from go_ent.engine.console.downloads import download, picture
from go_ent.engine.console.page import Page
from go_ent.engine.console.pages.run_facts import bars_of, commands_of, source_of
from go_ent.engine.console.visit import Refused, Viewer, Visit
from go_ent.engine.core.ids import short_id
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.store import ALIVE
from go_ent.engine.timeline import Span, Timeline
from go_ent.sandbox.media.kinds import IMAGES

PAGE = Page("/runs", "A run")
AT_ONCE = 200  # spans on one page
MOST_SPANS = 500  # in one answer to the page's script
MOST_RECORDS = 200
MOST_PICTURES = 20
LINE = re.compile(r"\(line ([0-9]{1,6})\)(?:\nhint: .*)?\Z", re.DOTALL)


@PAGE.stamp("run")
async def _stamp(viewer: Viewer, argument: str) -> str:
    state = await viewer.execution(argument)
    return stamp_of(state, await viewer.engine.records.timeline(state.id))


def stamp_of(state: ExecutionState, timeline: Timeline) -> str:
    """Each by itself: what is read later may know of records that the other does not."""
    return f"{state.status}:{state.seq}:{timeline.seq}"


@PAGE.get("/{id}")
async def run(visit: Visit) -> Response:
    """All there is of one run; `?call=` is the step or call that is looked at."""
    state = await visit.viewer.execution(visit.path("id"))
    timeline = await _timeline(visit, state)
    visit.shows("run", state.id, stamp_of(state, timeline))
    spans = timeline.ordered()
    start = min(visit.count("from", 0, 1 << 40), max(0, len(spans) - 1))
    call = visit.query("call")
    chosen = await visit.engine.records.details(state.id, call) if call else None
    step = next(iter(state.results.values())) if len(state.results) == 1 else None
    used = next(iter(timeline.used.values()), {}) if len(timeline.used) == 1 else {}
    code, language = await source_of(visit.viewer, state)
    files = await visit.engine.records.files(state.id)
    return await visit.html(
        "run.html",
        state=state,
        running=state.status in ALIVE,
        timeline=timeline,
        spans=spans[start : start + AT_ONCE],
        start=start,
        count=len(spans),
        calls=sum(span.kind == "call" for span in spans) + timeline.left_out,
        at_once=AT_ONCE,
        scale=scale_of(timeline, spans, running=state.status in ALIVE),
        chosen=chosen,
        code=code,
        language=language,
        marked=_failed_line(state, used),
        traceback=used.get("traceback", ""),
        values=used["values"] if isinstance(used.get("values"), dict) else {},
        value=_value(state, step),
        has_value=state.result is not None or step is not None,
        printed=timeline.printed,
        files=files,
        pictures=[one for one in files if one.mime_type in IMAGES][:MOST_PICTURES],
        bars=bars_of(visit.viewer, state, used, files),
        commands=commands_of(state, code, language),
        children=await visit.engine.records.children(state.id),
        attempts=[(name, one) for name, result in state.results.items() for one in result.attempts if one.failure][:50],
    )


@PAGE.get("/{id}/spans")
async def spans(visit: Visit) -> Response:
    """A part of the timeline, for the page's script."""
    state = await visit.viewer.execution(visit.path("id"))
    timeline = await _timeline(visit, state)
    found = timeline.ordered()
    start, count = visit.count("from", 0, 1 << 40), visit.count("count", AT_ONCE, MOST_SPANS)
    first, whole = scale_of(timeline, found, running=state.status in ALIVE)
    rows = [
        {
            "path": span.path,
            "name": span.name,
            "arguments": span.arguments,
            "depth": span.depth,
            "kind": span.kind,
            "status": span.status,
            "ms": span.ms,
            "left": (span.at - first) / whole,
            "width": ((span.end or first + whole) - span.at) / whole,
        }
        for span in found[start : start + count]
    ]
    return visit.json({"count": len(found), "from": start, "whole_s": whole, "spans": rows})


@PAGE.get("/{id}/record")
async def record(visit: Visit) -> Response:
    """The journal itself, a part at a time."""
    state = await visit.viewer.execution(visit.path("id"))
    timeline = await visit.engine.records.timeline(state.id)
    visit.shows("run", state.id, stamp_of(state, timeline))
    offset = visit.count("from", 0, 1 << 50)
    records, after = await visit.engine.records.tail(state.id, offset, MOST_RECORDS)
    return await visit.html(
        "record.html",
        state=state,
        records=[_told(one) for one in records],
        offset=offset,
        after=after,
        more=bool(records) and records[-1]["seq"] < timeline.seq,
    )


@PAGE.get("/{id}/value")
async def value(visit: Visit) -> Response:
    """What a run, or one of its steps or calls, came to: all of it, as a file."""
    state = await visit.viewer.execution(visit.path("id"))
    call = visit.query("call")
    if call:
        details = await visit.engine.records.details(state.id, call)
        if details is None:
            raise Refused(404, "there is no such call")
        found = details.answer if visit.query("what") != "arguments" else details.arguments
    else:
        found = _value(state, next(iter(state.results.values())) if len(state.results) == 1 else None)
    name = f"{short_id(state.id)}{'-' + call.replace('/', '-') if call else ''}"
    if isinstance(found, str):
        return download(f"{name}.txt", found.encode("utf-8", "surrogateescape"))
    return download(f"{name}.json", json.dumps(found, ensure_ascii=False, default=str).encode("utf-8", "replace"))


@PAGE.get("/{id}/files/{name:path}")
async def file(visit: Visit) -> Response:
    """A file that a run left, to be saved."""
    state = await visit.viewer.execution(visit.path("id"))
    media = await visit.engine.records.file(state.id, visit.path("name"))
    return download(media.name, media.data)


@PAGE.get("/{id}/pictures/{name:path}")
async def shown(visit: Visit) -> Response:
    """A picture that a run left, if its bytes are one."""
    state = await visit.viewer.execution(visit.path("id"))
    made = picture(await visit.engine.records.file(state.id, visit.path("name")))
    if made is None:
        raise Refused(404, "this file is no picture that can be shown")
    return made


async def _timeline(visit: Visit, state: ExecutionState) -> Timeline:
    timeline = await visit.engine.records.timeline(state.id)
    timeline.settle(running=state.status in ALIVE)
    return timeline


def scale_of(timeline: Timeline, spans: list[Span], *, running: bool) -> tuple[float, float]:
    """When the first span began, and the seconds to the end of the last: never none."""
    first = min((span.at for span in spans), default=timeline.first)
    ends = [span.end for span in spans if span.end is not None]
    last = max([*ends, *([timeline.last] if running or not ends else [])], default=first)
    return first, max(last - first, 0.001)


def _failed_line(state: ExecutionState, used: dict[str, Any]) -> int:
    """The line that failed; of older records, as the error's own words have it."""
    if type(used.get("line")) is int:
        return int(used["line"])
    match = LINE.search(state.error or "") if state.status == "failed" else None
    return int(match[1]) if match else 0


def _value(state: ExecutionState, step: Any) -> Any:
    if step is not None and step.structured is not None:
        return step.structured
    if state.result is not None and state.result.output:
        return state.result.output
    return None if step is None else step.output


def _told(record: dict[str, Any]) -> tuple[int, float, str, str, str]:
    """A record: its number, time and kind, where it belongs, and the rest of it as text."""
    rest = {name: one for name, one in record.items() if name not in ("seq", "at", "kind", "path", "step", "crc")}
    where = str(record.get("path") or record.get("step") or "")
    text = json.dumps(rest, ensure_ascii=False, default=str)
    return int(record["seq"]), float(record.get("at") or 0), str(record["kind"]), where, text
