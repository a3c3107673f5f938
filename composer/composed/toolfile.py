"""The file of a composed tool: source with comment blocks that hold its metadata, after PEP 723.

    # /// tool
    # name = "triage"
    # version = 3
    # requires = ["github.search_issues"]
    # limits = { timeout_s = 20 }
    # ///
    # /// examples
    # {"inputs": {"repo": "x/y"}, "result": [], "calls": [{"tool": "github.search_issues", "result": []}]}
    # ///

In JavaScript and TypeScript the comments begin with `//`. The `tool` block is TOML, the `examples` block JSON objects
one after the other; an example may also stand in the TOML as `[[examples]]`. The host reads these blocks and nothing
else of the source.
"""

from __future__ import annotations

import hashlib
import json
import keyword
import re
import tomllib
import unicodedata
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator, model_validator

from go_ent.composer.catalogue.grants import check_pattern
from go_ent.composer.catalogue.reserved import reserved_problem
from go_ent.composer.errors import BadName, ComposeRefused
from go_ent.dataclass import dataclass
from go_ent.sandbox import LimitError, Limits
from go_ent.sandbox.messages import validation
from go_ent.sandbox.worker.languages import SUFFIXES, Language

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
MAX_BYTES = 512 << 10
MAX_EXAMPLES = 100
WIDTH = 110
MARKS: dict[Language, str] = {"python": "#", "javascript": "//", "typescript": "//"}  # that comments begin with
OPENS = re.compile(r"(#|//) /// (tool|examples)[ \t]*")
TEXT = re.compile(r"[^ \t\n]")
CLOSES = re.compile(r"(?:#|//) ///[ \t]*")
VERSION = re.compile(r"(?m)^(?:#|//) version[ \t]*=[ \t]*([0-9]+)[ \t]*\n")
NAME_LINE = re.compile(r"(?:#|//) name[ \t]*=[^\n]*\n")
# Controls, among them all that some reader takes for the end of a line and another doesn't; marks that change the order
# in which text is shown; halves of characters. With any of them a person could be shown other code than what is run.
MISLEADING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
MOST_TOLD = 5


def check_name(name: str) -> str:
    """*name*, if a composed tool can be called that; no path outside the store can be made of it."""
    if not isinstance(name, str) or not NAME.fullmatch(name) or keyword.iskeyword(name):
        raise BadName(
            f"{name!r:.100} can't be the name of a composed tool: a small letter, then small letters, digits "
            "and underscores, "
            "64 at most, and no Python keyword"
        )
    return name


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class RecordedCall(_Model):
    """A tool's answer in an example, so that the example runs offline. Without arguments it answers any."""

    tool: str
    arguments: dict[str, JsonValue] | None = None
    result: JsonValue = None
    error: str | None = None


class Example(_Model):
    """Inputs with what must come of them: a result, or an error that contains a text."""

    inputs: dict[str, JsonValue] = Field(default_factory=dict)
    result: JsonValue = None
    error: str | None = None
    calls: list[RecordedCall] = Field(default_factory=list)


class Metadata(_Model):
    """The `tool` block."""

    name: str
    version: int | None = Field(default=None, ge=1)
    requires: list[str] | None = None
    limits: dict[str, Any] = Field(default_factory=dict)
    language: Language | None = None
    examples: list[Example] = Field(default_factory=list, max_length=MAX_EXAMPLES)

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        return check_name(name)

    @field_validator("requires")
    @classmethod
    def _requires(cls, requires: list[str] | None) -> list[str] | None:
        return None if requires is None else [check_pattern(name) for name in requires]

    @model_validator(mode="after")
    def _limits(self) -> Metadata:
        try:
            Limits(**self.limits)
        except (LimitError, TypeError) as error:
            raise ValueError(f"limits: {error}") from None
        return self


@dataclass(frozen=True, slots=True)
class ToolFile:
    """A source and its metadata. `digest` is of the content without its version: equal files are equal tools."""

    source: str
    metadata: Metadata
    digest: str
    language: Language = "python"

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def suffix(self) -> str:
        """How the name of its file ends."""
        return SUFFIXES[self.language]

    @property
    def mark(self) -> str:
        """What its comments begin with."""
        return MARKS[self.language]

    def with_version(self, version: int) -> ToolFile:
        """The same tool with the version that the store gives it."""
        found = tool_block(self.source)
        body = VERSION.sub("", self.source[found.start : found.end], count=1)
        named = NAME_LINE.match(body)  # after the name, where a reader looks for it
        at = named.end() if named else 0
        body = f"{body[:at]}{self.mark} version = {version}\n{body[at:]}"
        made = read(self.source[: found.start] + body + self.source[found.end :], self.name, self.language)
        if made.digest != self.digest or made.metadata != self.metadata.model_copy(update={"version": version}):
            raise ComposeRefused(
                self.name, ["its `/// tool` block holds `version` where the store can't change it: leave it out"]
            )
        return made


def read(source: str | bytes, name: str | None = None, language: Language | None = None) -> ToolFile:
    """A tool's file, from its text. *name* is what it must be called, if that is known, and *language* what it is
    written in. Comments that begin with `//` are TypeScript's, unless that or the block says JavaScript.
    """
    called = name or "the tool"
    if isinstance(source, bytes):
        if len(source) > MAX_BYTES:
            raise ComposeRefused(called, [f"its file is {len(source)} bytes long; at most {MAX_BYTES} are accepted"])
        try:
            source = source.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ComposeRefused(called, [f"its file is not UTF-8: {error.reason} at byte {error.start}"]) from None
    if len(source) > MAX_BYTES:
        raise ComposeRefused(called, [f"its file is {len(source)} characters long; at most {MAX_BYTES} are accepted"])
    source = source.replace("\r\n", "\n")
    source = source if source.endswith("\n") else f"{source}\n"
    if misleading := _misleading(source):
        raise ComposeRefused(called, misleading)
    found = blocks(source)
    bodies: dict[str, str] = {}
    for block in found:
        if block.kind in bodies:
            raise ComposeRefused(called, [f"it has two `{block.mark} /// {block.kind}` blocks; put them together"])
        bodies[block.kind] = re.sub(rf"(?m)^{block.mark} ?", "", source[block.start : block.end])
    if "tool" not in bodies:
        mark = MARKS[language or "python"]
        raise ComposeRefused(
            called, [f'it has no metadata: start the file with\n{mark} /// tool\n{mark} name = "…"\n{mark} ///']
        )
    metadata = _metadata(called, bodies["tool"], bodies.get("examples", ""))
    spoken = _language(metadata, found[0].mark, language)
    if name is not None and metadata.name != name:
        raise ComposeRefused(name, [f"its file says that its name is {metadata.name!r}"])
    if (reserved := reserved_problem(metadata.name)) is not None:
        raise ComposeRefused(metadata.name, [reserved])
    if spoken == "javascript" and metadata.language is None:  # so that every copy of the text says it
        return read(_with_language(source, spoken), name, language)
    digest = hashlib.sha256(unversioned(source).encode()).hexdigest()
    return ToolFile(source, metadata, digest, spoken)


def _language(metadata: Metadata, mark: str, wanted: Language | None) -> Language:
    """What a tool is written in: its block, what is known of it, and its comments have to agree."""
    spoken = metadata.language or wanted or ("python" if mark == "#" else "typescript")
    if wanted not in (None, spoken):
        raise ComposeRefused(metadata.name, [f'its block says `language = "{spoken}"`, and it is to be {wanted}'])
    if MARKS[spoken] != mark:
        raise ComposeRefused(
            metadata.name, [f"it is to be {spoken}, whose comments begin with {MARKS[spoken]}: write its blocks so"]
        )
    return spoken


def _with_language(source: str, language: Language) -> str:
    found = tool_block(source)
    named = NAME_LINE.match(source, found.start, found.end)
    at = named.end() if named else found.start
    return f'{source[:at]}{found.mark} language = "{language}"\n{source[at:]}'


def _misleading(source: str) -> list[str]:
    """Where a source has characters that no tool's file may have, in strings and comments neither."""
    problems: dict[int, str] = {}
    line = at = 0
    for match in MISLEADING.finditer(source):
        line, at = line + source.count("\n", at, match.start()), match.start()
        code = ord(match[0])
        called = unicodedata.name(match[0], "a control character" if code < 0xA0 else "half a character")
        said = f"line {line + 1} has the character U+{code:04X} ({called.lower()})"
        problems.setdefault(line, f"{said}: write it as an escape, like \\u{code:04x}")
        if len(problems) == MOST_TOLD:
            break
    return list(problems.values())


def identity(data: bytes) -> tuple[str, int | None] | None:
    """The digest and the version of what was once saved as a tool's file, whether or not it could be saved now; None
    if it is none.
    """
    try:
        source = data.decode("utf-8")
        block = tool_block(source)
    except (UnicodeDecodeError, StopIteration):
        return None
    version = VERSION.search(source[block.start : block.end])
    number = int(version[1]) if version and len(version[1]) < 10 else None
    return hashlib.sha256(unversioned(source).encode()).hexdigest(), number


def unversioned(source: str) -> str:
    """Two files that differ in the version alone are the same tool."""
    found = tool_block(source)
    return source[: found.start] + VERSION.sub("", source[found.start : found.end], count=1) + source[found.end :]


class Block(NamedTuple):
    """Where the body of a block is: the lines between those that open and close it."""

    kind: str
    start: int
    end: int
    mark: str = "#"  # what its lines begin with


def blocks(source: str) -> list[Block]:
    """The blocks of a source, in one pass: a line that opens one, lines that begin with `#` or `//`, a line that closes
    it. All are marked as the first `tool` block is; what is marked otherwise is some text of the code.
    """
    found: list[Block] = []
    kind, mark, start, at = "", "", 0, 0
    for text in source.split("\n"):
        line = f"{text}\n"
        opens = OPENS.fullmatch(text)
        if kind and text.startswith(mark) and CLOSES.fullmatch(text):
            found.append(Block(kind, start, at, mark))
            kind = ""
        elif kind and not (text == mark or text.startswith(f"{mark} ")):
            kind = ""  # never closed: an ordinary comment
        elif not kind and opens:
            mark, kind, start = opens[1], opens[2], at + len(line)
        at += len(line)
    first = next((block.mark for block in found if block.kind == "tool"), None)
    return [block for block in found if first in (None, block.mark)]


def tool_block(source: str) -> Block:
    """The block with a tool's metadata, which every tool's source has."""
    return next(block for block in blocks(source) if block.kind == "tool")


def _metadata(called: str, block: str, examples: str) -> Metadata:
    try:
        table = tomllib.loads(block)
        called = table["name"] if isinstance(table.get("name"), str) else called
    except (ValueError, RecursionError) as error:
        raise ComposeRefused(called, [f"its `/// tool` block is not valid TOML: {error}"]) from None
    listed: list[Any] = (
        list(table.get("examples", [])) if isinstance(table.get("examples", []), list) else [table["examples"]]
    )
    decoder, at = json.JSONDecoder(), 0
    while begins := TEXT.search(examples, at):
        if len(listed) >= MAX_EXAMPLES:
            raise ComposeRefused(called, [f"it has more than {MAX_EXAMPLES} examples"])
        try:
            value, at = decoder.raw_decode(examples, begins.start())
            listed.append(value)
        except (ValueError, RecursionError) as error:
            line = examples.count("\n", 0, getattr(error, "pos", at)) + 1
            raise ComposeRefused(called, [f"line {line} of its `/// examples` block is not JSON: {error}"]) from None
    try:
        return Metadata.model_validate({**table, "examples": listed})
    except ValidationError as error:
        problems = []
        for problem in validation.problems(error)[:8]:
            where = ".".join(str(part) for part in problem.place)
            problems.append(f"`{where}` in its metadata: {problem.words}" if where else problem.words)
        raise ComposeRefused(called, problems) from None


def write(
    name: str,
    body: str,
    *,
    limits: dict[str, Any] | None = None,
    examples: list[Example],
    language: Language = "python",
) -> str:
    """A tool's file made from its parts."""
    lines = ["/// tool", f'name = "{check_name(name)}"']
    if language == "javascript":
        lines.append(f'language = "{language}"')
    if limits:
        pairs = ", ".join(f"{key} = {json.dumps(value)}" for key, value in limits.items())
        lines.append(f"limits = {{ {pairs} }}")
    lines.append("///")
    if examples:
        lines.append("/// examples")
        lines += [line for example in examples for line in written(example).split("\n")]
        lines.append("///")
    return "\n".join(f"{MARKS[language]} {line}" for line in lines) + "\n" + body.lstrip("\n")


def written(example: Example) -> str:
    """An example as it stands in a file: on one line if that is short, else a line for each of its parts."""
    made = example.model_dump(exclude_defaults=True)
    if example.error is None:
        made["result"] = example.result
    return _written(made, 0)


def _written(value: Any, indent: int) -> str:
    text = _escaped(json.dumps(value, ensure_ascii=False))
    if len(text) + indent <= WIDTH or not isinstance(value, dict | list) or not value:
        return text
    inner = " " * (indent + 1)
    if isinstance(value, dict):
        parts = [
            f"{inner}{_escaped(json.dumps(key, ensure_ascii=False))}: {_written(part, indent + 1)}"
            for key, part in value.items()
        ]
        return "{\n" + ",\n".join(parts) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(f"{inner}{_written(part, indent + 1)}" for part in value) + "\n" + " " * indent + "]"


def _escaped(text: str) -> str:
    """JSON without the characters that a tool's file can't have."""
    return MISLEADING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
