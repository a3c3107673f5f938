"""What a guest is asked to run: checked, bounded and put into text before a guest is needed."""

from __future__ import annotations

import base64
import keyword
from collections.abc import Mapping, Sized
from functools import lru_cache
from typing import Any, Literal

from pydantic_core import PydanticSerializationError, to_json

from go_ent.dataclass import dataclass
from go_ent.sandbox.errors import LimitError
from go_ent.sandbox.host.limits import Limits
from go_ent.sandbox.host.run import RunError
from go_ent.sandbox.host.tools import Granted, to_json_marked
from go_ent.sandbox.media.marks import MARK
from go_ent.sandbox.worker.languages import LANGUAGES, Language
from go_ent.sandbox.worker.names import FILE_NAME, MAX_FILES, MAX_NAME
from go_ent.sandbox.worker.seam import guest_seed

MAX_SOURCE_BYTES = 1 << 20
MAX_INPUT_BYTES = 32 << 20
MARKED = b'"%b"' % MARK.encode()
LARGE = 10_000  # bytes of a text, or members of a list: what takes a while to encode


def made_for_runs(language: str, kind: str) -> str:
    """What the workers of an artefact are for: Python's by its kind alone."""
    return kind if language == "python" else f"{language} {kind}"


@lru_cache(64)
def way_of(entry: str | None, cut: bool, language: str) -> Way:
    """How a source is run that is not only looked at; LimitError as `check_language`."""
    return Way(entry, None, cut, check_language(language))


def check_language(language: str) -> Language:
    """*language*, if there is such a one; LimitError otherwise."""
    for known in LANGUAGES:
        if language == known:
            return known
    raise LimitError(f"language={language!r}: there are {', '.join(LANGUAGES)}")


@dataclass(frozen=True, slots=True)
class Way:
    """How a source is run: as it stands, or by way of one of its functions, or only looked at."""

    entry: str | None = None
    examine: Literal["interface", "shapes", "function", "tool", "code"] | None = None
    cut: bool = False  # an overlong result is cut, and no failure
    language: Language = "python"

    @property
    def image(self) -> str:
        """The language of the image that runs it: TypeScript is JavaScript once its types are stripped."""
        return "javascript" if self.language == "typescript" else self.language

    @property
    def compiling(self) -> Way:
        """How the same source is compiled. Python's code is the same whatever is called; a tool in another language is
        prepared as one.
        """
        return Way(None if self.language == "python" else self.entry, "code", language=self.language)

    def kept_as(self, key: bytes) -> bytes:
        """What its compiled code is kept under, of a source with that *key*."""
        return key if self.language == "python" or self.entry is None else b"tool" + key


class BadRequest(Exception):
    """Internal: raised when a source, input or file can't be run. It is the run's error; no guest is needed."""

    def __init__(
        self, kind: str, message: str, status: Literal["error", "refused"] = "error", hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error = RunError(kind=kind, message=message, hint=hint)


def encode_source(code: str | bytes) -> bytes:
    if isinstance(code, str):
        try:
            data = code.encode("utf-8")
        except UnicodeEncodeError as error:
            raise BadRequest(
                "SyntaxError", f"the source is not valid Unicode: {error.reason} at position {error.start}"
            ) from None
    elif isinstance(code, bytes | bytearray):
        data = bytes(code)
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadRequest("SyntaxError", f"the source is not UTF-8: {error.reason} at byte {error.start}") from None
    else:
        raise TypeError(f"code must be str or bytes, not {type(code).__name__}")
    if len(data) > MAX_SOURCE_BYTES:
        raise BadRequest(
            "SourceTooLarge",
            f"the source is longer than {MAX_SOURCE_BYTES} bytes",
            "refused",
            "pass data as inputs or files",
        )
    return data


def _inputs(inputs: Mapping[str, Any] | None) -> bytes:
    if not inputs:
        return b"{}"
    if not isinstance(inputs, Mapping):
        raise BadRequest("InputError", f"inputs must be a mapping of names to values, not {type(inputs).__name__}")
    for name in inputs:
        if name in ("tools", "ToolError"):
            raise BadRequest("InputError", f"{name!r} can't be the name of an input: it is taken")
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or name.startswith("__"):
            raise BadRequest(
                "InputError", f"{name!r} can't be the name of an input: it must be an ordinary variable name"
            )
    try:
        data = to_json_marked(dict(inputs))
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise BadRequest(
            "InputError",
            f"the inputs can't be encoded as JSON: {error}",
            hint="pass JSON types, dataclasses or pydantic models",
        ) from None
    if len(data) > MAX_INPUT_BYTES:
        raise BadRequest("InputError", f"the inputs are {len(data)} bytes long; at most {MAX_INPUT_BYTES} are accepted")
    return data


def _files(files: Mapping[str, bytes] | None, limits: Limits) -> bytes:
    if not files:
        return b"{}"
    total = 0
    encoded: dict[str, str] = {}
    for name, data in files.items():
        if not isinstance(name, str) or not FILE_NAME.fullmatch(name) or len(name) > MAX_NAME:
            raise BadRequest("FileError", f"{name!r} can't be the name of a file: use a relative name without '..'")
        try:
            name.encode("utf-8")
            content = data.encode("utf-8") if isinstance(data, str) else data
        except UnicodeEncodeError:
            raise BadRequest("FileError", f"file {name!r}: its name or text is not valid Unicode") from None
        if not isinstance(content, bytes | bytearray | memoryview):
            raise BadRequest("FileError", f"file {name!r}: bytes are needed, not {type(data).__name__}")
        total += len(content)
        encoded[name] = base64.b64encode(content).decode()
    if limits.max_file_bytes is not None and total > limits.max_file_bytes:
        raise BadRequest("FileError", f"the files are {total} bytes in all; max_file_bytes={limits.max_file_bytes}")
    if len(encoded) > MAX_FILES:
        raise BadRequest("FileError", f"{len(encoded)} files were passed; at most {MAX_FILES} are accepted")
    return to_json(encoded)


def is_large(inputs: Mapping[str, Any] | None, files: Mapping[str, Any] | None) -> bool:
    """Whether `encode_request` is for a thread, as far as that is seen at a glance."""
    if not inputs and not files:
        return False
    values = [*(inputs or {}).values(), *(files or {}).values()] if isinstance(inputs, Mapping | None) else ()
    return any(isinstance(value, Sized) and len(value) > LARGE for value in values)


def encode_request(
    source: bytes,
    code: bytes | None,
    inputs: Mapping[str, Any] | None,
    files: Mapping[str, bytes] | None,
    limits: Limits,
    tools: Granted,
    seed: bytes,
    *,
    fresh: bool,
    session: bool,
    way: Way,
) -> bytes:
    """The text that a guest gets. Put together from JSON pieces, of which *code* is one, so that nothing is encoded
    twice.

    `marked` says whether there may be bytes among the inputs. Were the guest to look for marks in the text, its fuel
    would depend on what else is in there: the seed.
    """
    given = _inputs(inputs)
    return (
        b'{"source":%b,"code":%b,%b,%b,"fresh":%b,"session":%b,"seed":%b,"marked":%b,"inputs":%b,"files":%b,"tools":%b}'
    ) % (
        to_json(source.decode()),
        b"null" if code is None else code,
        _limits_json(limits),
        _way_json(way),
        b"true" if fresh else b"false",
        b"true" if session else b"false",
        b"%d" % guest_seed(seed) if way.language == "python" else b'"%d"' % guest_seed(seed),
        b"true" if MARKED in given else b"false",
        given,
        _files(files, limits),
        tools.names_json,
    )


@lru_cache(64)
def _way_json(way: Way) -> bytes:
    fields: dict[str, Any] = {"entry": way.entry, "examine": way.examine, "cut": way.cut}
    return to_json(fields if way.language == "python" else {**fields, "language": way.language})[1:-1]


@lru_cache(64)
def _limits_json(limits: Limits) -> bytes:
    fields = {
        "stdout": limits.max_stdout_bytes,
        "call_bytes": limits.max_call_bytes,
        "call_values": limits.max_call_values,
        "result_bytes": limits.max_result_bytes,
        "file_bytes": limits.max_file_bytes,
    }
    return to_json(fields)[1:-1]
