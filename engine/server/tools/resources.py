"""Resources: stubs of the granted tools, and what executions have done."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from fastmcp.exceptions import ResourceError
from fastmcp.resources.base import ResourceContent, ResourceResult

from go_ent.composer import Composer, ToolSpec
from go_ent.composer.catalogue.catalogue import show
from go_ent.engine.engine import Engine
from go_ent.engine.executions.kept_files import kept_files, read_file
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.server.calls import media
from go_ent.engine.server.calls.advice import in_tools
from go_ent.engine.server.calls.callers import current
from go_ent.sandbox.errors import AdvisedError

if TYPE_CHECKING:
    from fastmcp import FastMCP

T = TypeVar("T")
MAX_STUBS = 100_000  # characters
MOST_LISTED = 100
MOST_LINES = 300
MAX_LINE = 400
QUIET = frozenset({"seq", "at", "kind", "heard", "seed", "digest", "state", "seal"})
ANNOTATIONS = {"readOnlyHint": True, "idempotentHint": True}


def add(server: FastMCP, composer: Composer, engine: Engine) -> None:
    """Add the resources to *server*."""

    @server.resource("go-ent://stubs", name="stubs", mime_type="text/x-python", annotations=ANNOTATIONS)
    async def all_stubs() -> str:
        """Typed stubs of the tools that code may call."""
        return await said(granted_stubs(composer, MAX_STUBS))

    @server.resource(
        "go-ent://stubs/{namespace}", name="stubs of a namespace", mime_type="text/x-python", annotations=ANNOTATIONS
    )
    async def stubs_of(namespace: str) -> str:
        """Typed stubs of the tools of one namespace."""
        return await said(granted_stubs(composer, MAX_STUBS, namespace))

    @server.resource("go-ent://executions", name="executions", mime_type="application/json", annotations=ANNOTATIONS)
    async def executions() -> str:
        """The newest executions."""
        found = await said(current().executions(engine, MOST_LISTED))
        names = ("status", "kind", "title", "created", "resumable")
        return json.dumps([{"execution_id": row.id, **{name: getattr(row, name) for name in names}} for row in found])

    @server.resource(
        "go-ent://executions/{execution_id}/log",
        name="log of an execution",
        mime_type="text/plain",
        annotations=ANNOTATIONS,
    )
    async def execution_log(execution_id: str) -> str:
        """What an execution has done, record by record: the newest of it."""
        state = await said(current().find(engine, execution_id))
        return await said(asyncio.to_thread(log_of, engine.store, state.id))

    @server.resource(media.LISTING, name="files of an execution", mime_type="application/json", annotations=ANNOTATIONS)
    async def execution_files(execution_id: str) -> str:
        """The files that the code of an execution has written: the first thousand, and where to read each."""
        state = await said(current().find(engine, execution_id))
        found = await said(asyncio.to_thread(kept_files, engine.store, state.id))
        rows = [
            {
                "name": media.shown_name(file.path),
                "mime_type": file.mime_type,
                "bytes": file.size,
                "uri": media.uri_of(state.id, file.path),
            }
            for file in found
        ]
        return json.dumps(rows)

    @server.resource(
        media.URI, name="file of an execution", mime_type="application/octet-stream", annotations=ANNOTATIONS
    )
    async def execution_file(execution_id: str, name: str) -> ResourceResult:
        """A file that the code of an execution has written."""
        state = await said(current().find(engine, execution_id))
        file = await said(asyncio.to_thread(read_file, engine.store, state.id, name))
        text = file.text
        return ResourceResult([ResourceContent(file.data if text is None else text, mime_type=file.mime_type)])


async def said(work: Awaitable[T]) -> T:
    """What it comes to; what goes wrong is told in its own words."""
    try:
        return await work
    except AdvisedError as error:
        raise ResourceError(error.told(in_tools)) from None
    except OSError as error:
        raise ResourceError(str(error)) from None


async def granted_stubs(composer: Composer, most: int, namespace: str | None = None) -> str:
    """Stubs of what the caller may call, as many as fit *most* characters; the others by their signatures, or by
    number.
    """
    found = await composer.catalogue.tools(current().grants(composer), namespace)
    problems = "".join(
        f"# {origin} is not available: {problem[:300]}\n" for origin, problem in current().problems(composer).items()
    )
    if not found:
        return f"{problems}# no tool {f'of {namespace[:80]} ' if namespace else ''}is granted here\n"
    return await asyncio.to_thread(_fitting, found, most, problems[:2000])


def _fitting(found: list[ToolSpec], most: int, problems: str) -> str:
    text = show(found, "stubs")
    if len(text) <= most:
        return text + problems
    lines = [f"# {line}" for line in show(found, "brief").splitlines()]
    shown = _first(lines, most)
    left = len(lines) - len(shown)
    more = f"# … and {left} more: tool_search finds them\n" if left else ""
    return (
        "# too many for stubs of all: tool_schema has them by name\n"
        + "".join(f"{line}\n" for line in shown)
        + more
        + problems
    )


def _first(lines: Iterable[str], most: int) -> list[str]:
    shown: list[str] = []
    for line in lines:
        most -= len(line) + 1
        if most < 0:
            break
        shown.append(line)
    return shown


def log_of(store: ExecutionStore, execution_id: str) -> str:
    """The last records of an execution, a line each, plain. Blocks."""
    lines: deque[str] = deque(maxlen=MOST_LINES)
    count = 0
    for record in store.records(execution_id):
        count += 1
        lines.append(_line(record))
    left = count - len(lines)
    first = f"… {left} earlier records: go-ent logs {execution_id}\n" if left else ""
    return first + "".join(f"{line}\n" for line in lines)


def _line(record: dict[str, Any]) -> str:
    rest = {name: value for name, value in record.items() if name not in QUIET}
    where = rest.pop("path", None) or rest.pop("step", None) or ""
    if record["kind"] == "status" and isinstance(rest.get("changes"), dict):
        rest = {name: value for name, value in rest["changes"].items() if name in ("status", "error") and value}
    if record["kind"] == "step_finished" and isinstance(rest.get("result"), dict):
        rest = {
            name: value for name, value in rest["result"].items() if name in ("status", "error", "output") and value
        }
    try:
        at = time.strftime("%H:%M:%S", time.localtime(record["at"]))
        text = json.dumps(rest, ensure_ascii=False, default=str) if rest else ""
    except (ValueError, TypeError, OverflowError, OSError, RecursionError):
        at, text = "", "(can't be shown)"
    line = f"{at}  {record['kind']!s:<13} {where} {text}".rstrip()
    plain = "".join(char if char.isprintable() else "�" for char in line)
    return plain if len(plain) <= MAX_LINE else f"{plain[: MAX_LINE - 1]}…"
