"""Files of runs, as a browser gets them: pictures by what their bytes are, everything else as a download."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from go_ent.engine.console.guard import SANDBOXED
from go_ent.engine.console.words import file_name
from go_ent.sandbox.media.kinds import IMAGES, Media, mime_type_of


def picture(media: Media) -> Response | None:
    """A picture to be shown in a page, if its bytes are one; an SVG is none: it is a program as much as a picture."""
    kind = mime_type_of(media.data, "")
    if kind not in IMAGES:
        return None
    return Response(media.data, media_type=kind, headers={"content-security-policy": SANDBOXED})


def download(name: str, data: bytes | str) -> Response:
    """Something to be saved under a harmless name, and never opened by the browser itself."""
    safe = file_name(name)
    plain = "".join(char if char.isascii() and char not in '"\\' else "_" for char in safe)
    headers = {
        "content-security-policy": SANDBOXED,
        "content-disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(safe, safe='')}",
    }
    return Response(data, media_type="application/octet-stream", headers=headers)
