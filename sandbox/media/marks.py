"""Bytes inside JSON: `{"$bytes": base64, "mime_type"?, "name"?}` in what is sent to a guest, and in what it sends.

A guest has bytes where such an object stands (`sandbox/guest/encode.py`). In the result of a run bytes are files, and
`{"file": name, "bytes": size}` stands in their place.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

MARK = "$bytes"


def mark(data: bytes | str, mime_type: str | None = None, name: str | None = None) -> dict[str, Any]:
    """What stands for *data*, which may be base64 already."""
    text = data if isinstance(data, str) else base64.b64encode(data).decode("ascii")
    said = {"mime_type": mime_type, "name": name}
    return {MARK: text, **{key: value for key, value in said.items() if value}}


def marked(value: Any) -> Any:
    """A value of this program with bytes that are no text, in a form that JSON has."""
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return mark(data)
    return _mapped(value, marked)


def revived(value: Any) -> Any:
    """A value with bytes in place of their marks. What only looks like a mark is left as it is."""
    if (text := _text(value)) is not None:
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return value
    return _mapped(value, revived)


def as_text(value: Any) -> Any:
    """A value with base64 in place of its marks, as tools outside take it. The same object, if it has none.

    Where a mark stands for a block of a server's structured answer, the block is back, as its schema says.
    """
    text = _text(value)
    if text is not None and "type" in value:
        return {"type": value["type"], "data": text, "mimeType": value.get("mime_type", "")}
    return text if text is not None else _mapped(value, as_text)


def with_files(result: Any, files: Mapping[str, bytes]) -> Any:
    """A run's result with marks in place of what stands for its files."""
    if isinstance(result, dict) and result.keys() == {"file", "bytes"} and isinstance(name := result["file"], str):
        data = files.get(name)
        return result if data is None or len(data) != result["bytes"] else mark(data, name=name)
    return _mapped(result, lambda item: with_files(item, files))


def _text(value: Any) -> str | None:
    return text if isinstance(value, dict) and isinstance(text := value.get(MARK), str) else None


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A list or an object with its members changed; the same one, if none of them is another then."""
    if isinstance(value, dict):
        members = {key: change(item) for key, item in value.items()}
        return members if any(members[key] is not item for key, item in value.items()) else value
    if isinstance(value, list | tuple):
        items = [change(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value
