"""Pictures, sounds and files of a run as MCP content: what a client can show is shown, all else is linked.

What a file is, its content says: no MIME type comes from a guest or from a server.
"""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

from mcp_types import AudioContent, ContentBlock, ImageContent, ResourceLink

from go_ent.engine.core.models import RunResult
from go_ent.engine.executions.kept_files import NOT_KEPT
from go_ent.sandbox import Run
from go_ent.sandbox.media.kinds import Media

MOST_SHOWN = 8
MAX_SHOWN = 3 << 20  # bytes of one: models take 5 MB of base64 at most
MAX_SHOWN_TOTAL = 6 << 20
MOST_LINKED = 20
MAX_NAME = 100
SVG = "image/svg+xml"
LISTING = "go-ent://executions/{execution_id}/files"
URI = f"{LISTING}/{{name*}}"


def listed(run: Run) -> list[dict[str, Any]]:
    """The run's files, for its structured answer: what there is, and what is not told."""
    media = run.media
    rows: list[dict[str, Any]] = [
        {"name": shown_name(one.name), "mime_type": one.mime_type, "bytes": len(one.data)}
        for one in media[:MOST_LINKED]
    ]
    if len(media) > MOST_LINKED:
        rows.append({"name": f"… and {len(media) - MOST_LINKED} more"})
    return rows


def blocks(run: Run) -> list[ContentBlock]:
    """The run's files as content. Those that are on record can be read as resources."""
    media, room, shown = run.media, MAX_SHOWN_TOTAL, 0
    found: list[ContentBlock] = []
    for one in media:
        size = len(one.data)
        if one.kind != "file" and shown < MOST_SHOWN and size <= min(MAX_SHOWN, room):
            data = base64.b64encode(one.data).decode("ascii")
            content = ImageContent if one.kind == "image" else AudioContent
            found.append(content(data=data, mime_type=one.mime_type))
            room, shown = room - size, shown + 1
    if not (run.warning or "").startswith(NOT_KEPT):
        found += [link(run.id, one) for one in media[:MOST_LINKED]]
    return found


def link(execution_id: str, media: Media) -> ResourceLink:
    """Where a client reads a file of an execution."""
    return ResourceLink(
        uri=uri_of(execution_id, media.name),
        name=shown_name(media.name),
        mime_type=media.mime_type,
        size=len(media.data),
        description="a drawing" if media.mime_type == SVG else None,
    )


def step_links(step: RunResult, prefix: str) -> list[ResourceLink]:
    """Where a client reads the files that a step's guest left, in the folder of that name."""
    return [
        ResourceLink(uri=uri_of(step.execution_id, f"{prefix}{name}"), name=shown_name(f"{prefix}{name}"))
        for name in step.files
    ]


def uri_of(execution_id: str, name: str) -> str:
    return f"go-ent://executions/{execution_id}/files/{quote(name, safe='/')}"


def shown_name(name: str) -> str:
    """A name that a guest chose, as it is shown: without characters that could make it look like another."""
    plain = "".join(char if char.isprintable() else "�" for char in name)
    return plain if len(plain) <= MAX_NAME else f"{plain[: MAX_NAME - 1]}…"
