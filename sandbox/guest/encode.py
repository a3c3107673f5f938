"""Values to JSON, the way pydantic writes them; what can't be written is named by type and path.

JSON has no bytes. Those that are text are written as text; all others as `{"$bytes": base64}`, and read as bytes again.
"""

import base64
import binascii
import collections
import dataclasses
import datetime
import decimal
import enum
import ipaddress
import json
import pathlib
import re
import sqlite3
import types
import uuid
from collections.abc import Callable
from typing import Any

LISTS: tuple[type, ...] = (
    set,
    frozenset,
    collections.deque,
    range,
    types.GeneratorType,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
    map,
    filter,
    zip,
    enumerate,
    reversed,
    sqlite3.Cursor,
)
TEXTS = (decimal.Decimal, uuid.UUID, pathlib.PurePath, ipaddress._IPAddressBase)
MAX_DEPTH = 200
MARK = "$bytes"  # the host knows it too: go_ent.sandbox.media
# What files of a kind begin with, and how their names end.
_ENDINGS = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpg"),
    (b"GIF8", "gif"),
    (b"%PDF-", "pdf"),
    (b"ID3", "mp3"),
    (b"OggS", "ogg"),
    (b"fLaC", "flac"),
    (b"PK\x03\x04", "zip"),
)
_RIFF = {b"WEBP": "webp", b"WAVE": "wav"}
_SVG = re.compile(
    rb"\s*(?:<\?xml[^>]{0,200}>\s*)?(?><!--.{0,500}?-->\s*|<!DOCTYPE svg[^>]{0,300}>\s*){0,5}+<svg[\s>]", re.DOTALL
)


class Media(bytes):
    """Bytes of which it is known what they are: a picture, a sound, a file that a tool has given."""

    mime_type: str | None = None
    name: str | None = None

    def __repr__(self) -> str:
        return f"<{self.mime_type or 'bytes'}, {len(self)} bytes>"


Media.__module__ = "builtins"


def revived(value: Any) -> Any:
    """A value from JSON, with bytes where they are meant. What only looks like that is left as it is."""
    if isinstance(value, list):
        return [revived(item) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(text := value.get(MARK), str):
        try:
            media = Media(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            return value
        for name in ("mime_type", "name"):
            if isinstance(said := value.get(name), str):
                setattr(media, name, said)
        return media
    return {key: revived(item) for key, item in value.items()}


def ending(data: bytes) -> str:
    """How the name of a file with that content ends."""
    if data[:4] == b"RIFF" and data[8:12] in _RIFF:
        return _RIFF[data[8:12]]
    known = next((end for start, end in _ENDINGS if data.startswith(start)), None)
    return known or ("svg" if _SVG.match(data[:4096]) else "bin")


def _marked(data: bytes) -> object:
    """Bytes inside JSON."""
    said = {name: getattr(data, name, None) for name in ("mime_type", "name")}
    return {MARK: base64.b64encode(data).decode("ascii"), **{name: text for name, text in said.items() if text}}


_handed_over: list[Callable[[bytes], object]] = [_marked]  # the last says what becomes of bytes that are no text


def _binary(value: bytes) -> object:
    if value.__class__ is not Media:
        try:
            text = value.decode("utf-8")
            if not _SVG.match(value[:4096]):
                return text
        except UnicodeDecodeError:
            pass
    return _handed_over[-1](value)


class NotEncodable(TypeError):
    """Raised when a value has no JSON form; the message names its type and where it is."""


def _duration(value: datetime.timedelta) -> str:
    sign, value = ("-", -value) if value < datetime.timedelta(0) else ("", value)
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{value.microseconds:06d}".rstrip("0") if value.microseconds else ""
    days = f"{value.days}D" if value.days else ""
    parts = (
        f"{hours}H" if hours else "",
        f"{minutes}M" if minutes else "",
        f"{seconds}{fraction}S" if seconds or fraction else "",
    )
    time = "".join(parts)
    if not days and not time:
        time = "0S"
    time = f"T{time}" if time else ""
    return f"{sign}P{days}{time}"


def _simple(value: object) -> object:
    """The JSON-ready form of one object that json itself does not know, or NotImplemented."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime.timedelta):
        return _duration(value)
    if isinstance(value, datetime.datetime | datetime.time):
        text = value.isoformat()
        return text[:-6] + "Z" if text.endswith("+00:00") else text
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, TEXTS):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _binary(value if isinstance(value, Media) else bytes(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, LISTS):
        items: Any = value
        return list(items)
    if isinstance(value, complex):
        return str(value).strip("()")
    if isinstance(value, re.Pattern):
        return value.pattern
    if isinstance(value, collections.abc.Mapping | sqlite3.Row):
        return dict(value)
    return NotImplemented


def _default(value: object) -> object:
    simple = _simple(value)
    if simple is NotImplemented:
        raise TypeError
    return simple


# The C encoder itself, made once. It does not look for cycles: they end in a RecursionError, and then `_plain` looks.
_library: Any = json.encoder
_chunks = _library.c_make_encoder(None, _default, _library.encode_basestring, None, ":", ",", False, False, True)
_join = "".join
_PLAIN = frozenset((bool, int, float, str))


def describe(value: object) -> str:
    kind = type(value)
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )


def _key(key: object, path: str) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return str(key)
    if key is None or isinstance(key, bool | int | float):
        return (
            {None: "None", True: "true", False: "false"}.get(key) or str(key)
            if not isinstance(key, int | float) or isinstance(key, bool)
            else str(key)
        )
    if isinstance(key, tuple):
        return ",".join(_key(part, path) for part in key)
    simple = _simple(key)
    if isinstance(simple, str):
        return simple
    raise NotEncodable(f"{path}: a key of type {describe(key)} can't be encoded as JSON; use a string")


def _whole(text: str, path: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise NotEncodable(
            f"{path}: text with a lone surrogate can't be encoded as JSON; it is not valid Unicode"
        ) from None
    return text


def _plain(value: object, path: str, above: tuple[int, ...]) -> object:
    """The slow way: called only when json gave up, to convert odd keys or to name the culprit."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return _whole(value, path)
    if id(value) in above:
        raise NotEncodable(f"{path}: a {describe(value)} that contains itself can't be encoded as JSON")
    if len(above) >= MAX_DEPTH:
        raise NotEncodable(f"{path[:200]}…: nested more than {MAX_DEPTH} levels deep, which can't be encoded")
    inner = (*above, id(value))
    if isinstance(value, dict):
        return {_whole(_key(key, path), path): _plain(item, f"{path}[{key!r}]", inner) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}[{index}]", inner) for index, item in enumerate(value)]
    simple = _simple(value)
    if simple is NotImplemented:
        raise NotEncodable(f"{path}: a value of type {describe(value)} can't be encoded as JSON")
    return _plain(simple, path, inner)


def dumps_with_files(value: object, attach: Callable[[bytes], object]) -> str:
    """The JSON text of a result: bytes that are no text are files, and *attach* says what stands for one. The same
    bytes are one file, also when json gives up and it is done again the slow way.
    """
    if value is None or value.__class__ in _PLAIN:
        return dumps(value)
    attached: dict[bytes, object] = {}

    def once(data: bytes) -> object:
        if data not in attached:
            attached[data] = attach(data)
        return attached[data]

    _handed_over.append(once)
    try:
        return dumps(value)
    finally:
        _handed_over.pop()


def dumps(value: object, path: str | tuple[str, ...] = "result", deepest: int = MAX_DEPTH) -> str:
    """The JSON text of *value*; NotEncodable says what is in the way, and where: *path* may be in parts."""
    kind = value.__class__
    if value is None or kind is bool:
        return "null" if value is None else "true" if value else "false"
    if kind is int:
        return int.__repr__(value)
    try:
        text = _join(_chunks(value, 0))
        if not text.isascii():
            text.encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        text = _join(_chunks(_plain(value, _join(path), ()), 0))
    if len(text) <= deepest or text.count("[") + text.count("{") <= deepest:
        return text
    if _deeper(text, deepest) and _deeper(_TEXT.sub("", text), deepest):
        where = _join(path)
        raise NotEncodable(f"{where}: nested too deeply to be encoded as JSON; about {MAX_DEPTH} levels are accepted")
    return text


_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"')
_PAIRS = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))


def _deeper(text: str, levels: int) -> bool:
    """Whether JSON nests deeper than that, brackets in its texts counted too: the host's parser would not read it.

    The innermost pairs are taken away, again and again: wide data is gone after a few times, each of them fast.
    """
    left = text.encode("ascii", "ignore").translate(_PAIRS, _OTHERS)
    for more in range(levels, 0, -1):
        if len(left) <= more:
            return False
        before, left = left, left.replace(b"[]", b"")
        if len(left) == len(before):
            return True  # none that are pairs: there are brackets in its texts
    return bool(left)
