"""What a file is: by what it begins with, then by its name. Nothing is decoded, and nobody's word is taken for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from go_ent.dataclass import dataclass

LOOKED_AT = 4096  # bytes of a file's beginning
UNKNOWN = "application/octet-stream"

_STARTS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf2", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"PK\x03\x04", "application/zip"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_SVG = re.compile(
    rb"\s*(?:<\?xml[^>]{0,200}>\s*)?(?><!--.{0,500}?-->\s*|<!DOCTYPE svg[^>]{0,300}>\s*){0,5}+<svg[\s>]", re.DOTALL
)
# Kinds that show nothing of themselves at the beginning. A name that says a picture or a sound is not believed.
_NAMED = {
    "csv": "text/csv",
    "css": "text/css",
    "htm": "text/html",
    "html": "text/html",
    "js": "text/javascript",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "md": "text/markdown",
    "py": "text/x-python",
    "tsv": "text/tab-separated-values",
    "txt": "text/plain",
    "log": "text/plain",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "toml": "application/toml",
}
_ZIPPED = {
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}
# What models can be shown.
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
AUDIO = frozenset({"audio/wav", "audio/mpeg", "audio/ogg", "audio/flac"})


@dataclass(frozen=True, slots=True)
class Media:
    """A file of a run: its name, what it is, and its content."""

    name: str
    mime_type: str
    data: bytes

    @property
    def kind(self) -> Literal["image", "audio", "file"]:
        """Whether it can be shown, or played. An SVG is a file: it is a program as much as a picture."""
        return "image" if self.mime_type in IMAGES else "audio" if self.mime_type in AUDIO else "file"

    @property
    def text(self) -> str | None:
        """Its content, if it is text."""
        if not self.mime_type.startswith("text/") and self.mime_type not in _NAMED.values():
            return None
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError:
            return None


def mime_type_of(data: bytes, name: str = "") -> str:
    """What *data* is, called *name*."""
    head, ending = data[:LOOKED_AT], name.rpartition(".")[2].lower()
    found = _by_start(head)
    if found == "application/zip":
        return _ZIPPED.get(ending, found)
    return found or (_NAMED.get(ending, "text/plain") if _is_text(head) else UNKNOWN)


def _by_start(head: bytes) -> str | None:
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12])
    known = next((kind for start, kind in _STARTS if head.startswith(start)), None)
    return known or ("image/svg+xml" if _SVG.match(head) else None)


def _is_text(head: bytes) -> bool:
    if b"\x00" in head:
        return False
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start >= LOOKED_AT - 3 and len(head) == LOOKED_AT  # cut inside a character
    return True


def media_of(files: Mapping[str, bytes], only: Iterable[str] | None = None) -> list[Media]:
    """Files with what they are, in their order."""
    names = files if only is None else only
    return [Media(name, mime_type_of(files[name], name), files[name]) for name in names]
