"""The chain of an execution: its summaries, each with the messages that it replaced, attached to it and never written
over.

`0001.json` is a link, `0001.messages.jsonl` the messages that it stands for, whole. The methods block: call them in a
thread.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from go_ent.composer.project.items import apart
from go_ent.engine.context.models import Message, SummaryLink
from go_ent.engine.core.errors import BadState, BadTask, StorageFailed
from go_ent.engine.core.explain import explain
from go_ent.engine.core.models import Model
from go_ent.engine.executions.storage import Attachments

KIND = "context"  # of attachments
MAX_LINK = 8 << 20
MAX_MESSAGES = 64 << 20  # bytes of what one link replaced
MAX_LISTING = 64 << 20  # bytes of all links
MAX_FILES = 50_000
LINK = re.compile(r"([0-9]{4,9})\.json")
ORIGINALS = re.compile(r"([0-9]{4,9})\.messages\.jsonl")
M = TypeVar("M", bound=Model)


def digest_of(messages: Iterable[Message]) -> str:
    """The digest of messages' texts, in their order."""
    return hashlib.sha256("\n".join(message.digest for message in messages).encode()).hexdigest()


def summary_id(replaced: Sequence[str], digest: str) -> str:
    """The id of the message that stands for others: from it, their link is found again."""
    return "summary-" + hashlib.sha256("\n".join((*replaced, digest)).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def stands_for(message: Message, link: SummaryLink) -> bool:
    """Whether a message is the summary of that link."""
    if message.speaker == "summary":
        return message.text == link.summary and message.id == summary_id(link.replaced, link.digest)
    # An output that is handed on as a summary keeps its name, and says behind the summary what it is.
    return link.replaced == (message.id,) and message.text.startswith(f"{link.summary}\n[a summary of ")


class Chain:
    """The links of one execution, which are attached to it. What they replaced is on disk only."""

    def __init__(self, attachments: Attachments) -> None:
        self.attachments = attachments

    def add(self, link: SummaryLink, replaced: Sequence[Message]) -> SummaryLink:
        """Keep a link and the messages that it replaced. It gets the next number, whatever its own is."""
        if tuple(message.id for message in replaced) != link.replaced or digest_of(replaced) != link.digest:
            raise BadTask("these are not the messages that the link replaced")
        messages = b"".join(_line(message) for message in replaced)
        if len(messages) > MAX_MESSAGES:
            raise StorageFailed(
                f"what a summary replaced is too large to be kept: {len(messages)} bytes, and {MAX_MESSAGES} may be"
            )
        try:
            with self.attachments.alone():
                found, originals = self._numbers()
                link = link.model_copy(update={"number": max((0, *found, *originals)) + 1})
                data = _line(link)
                if len(data) > MAX_LINK:
                    raise StorageFailed(f"a summary is too large to be kept: {len(data)} bytes, and {MAX_LINK} may be")
                # The link comes last: one that is there has its messages.
                self.attachments.add(_originals(link.number), messages)
                self.attachments.add(_link(link.number), data)
        except (OSError, BadState) as error:
            raise StorageFailed(f"a summary can't be kept in {self.attachments.where}: {error}") from None
        return link

    def prepare(self) -> None:
        """Make sure that a link could be kept; `StorageFailed` if not."""
        try:
            self.attachments.prepare()
        except (OSError, BadState) as error:
            raise StorageFailed(f"a summary can't be kept in {self.attachments.where}: {error}") from None

    def links(self) -> list[SummaryLink]:
        """The links that can be read, by number; `check` tells of the others."""
        return self.listing()[0]

    def listing(self) -> tuple[list[SummaryLink], list[str]]:
        """The links by number, and for each that can't be read, why."""
        try:
            numbers, originals = self._numbers()
        except (OSError, BadState) as error:
            return [], [str(error)]
        links: list[SummaryLink] = []
        problems: list[str] = []
        size = 0
        for number in numbers:
            wrong: dict[str, str] = {}
            with apart(_link(number), wrong):
                data = self._read(_link(number), MAX_LINK)
                links.append(_as_link(number, data))
                size += len(data)
            problems += [why if name in why else f"{name}: {why}" for name, why in wrong.items()]
            if size > MAX_LISTING:
                problems.append(f"the summaries after number {number} are not listed: they are too much")
                break
        problems += [f"{_originals(number)} belongs to no link" for number in sorted({*originals} - {*numbers})]
        return links, problems

    def expand(self, number: int, *, deep: bool = False) -> list[Message]:
        """What a link replaced; with *deep*, summaries in it are replaced by what they stand for, down to the
        originals.

        `BadTask` if there is no such link, `BadState` if it or what it replaced is damaged.
        """
        try:
            numbers, _ = self._numbers()
        except OSError as error:
            raise BadState(str(error)) from None
        if number not in numbers:
            there = ", ".join(str(link.number) for link in self.links()[:20]) or "none"
            raise BadTask(f"there is no summary {number}; there are: {there}")
        messages = self._messages(_as_link(number, self._read(_link(number), MAX_LINK)))
        if not deep:
            return messages
        earlier = [link for link in self.links() if link.number < number]
        for link in reversed(earlier):  # a summary stands on earlier ones only, and each is put back once
            at = next((at for at, message in enumerate(messages) if stands_for(message, link)), None)
            if at is not None:
                messages[at : at + 1] = self._messages(link)
        return messages

    def check(self) -> list[str]:
        """What is wrong: links that can't be read, messages that are missing or are not those that were replaced."""
        links, problems = self.listing()
        for link in links:
            try:
                self._messages(link)
            except BadState as error:
                problems.append(str(error))
        return problems

    def _messages(self, link: SummaryLink) -> list[Message]:
        name = _originals(link.number)
        data = self._read(name, MAX_MESSAGES)
        if data.count(b"\n") > len(link.replaced):
            raise BadState(f"{name} is not what summary {link.number} replaced: it has more lines")
        lines = data.split(b"\n")
        if lines.pop():
            raise BadState(f"{name} is damaged: its last line is torn")
        messages = [_parsed(Message, line, f"{name}, line {at}") for at, line in enumerate(lines, 1)]
        if tuple(message.id for message in messages) != link.replaced or digest_of(messages) != link.digest:
            raise BadState(f"{name} is not what summary {link.number} replaced: its digest does not fit")
        return messages

    def _numbers(self) -> tuple[list[int], list[int]]:
        """The numbers of the links, and of what was replaced, in order."""
        names = self.attachments.names(MAX_FILES)
        if len(names) > MAX_FILES:
            raise BadState(f"{self.attachments.where} has more than {MAX_FILES} files: it is no chain")
        links, originals = (
            sorted(
                int(match[1])
                for name in names
                if (match := kind.fullmatch(name)) and match[1] == f"{int(match[1]):04d}"
            )
            for kind in (LINK, ORIGINALS)
        )
        return links, originals

    def _read(self, name: str, most: int) -> bytes:
        try:
            data = self.attachments.read(name, most)
        except OSError as error:
            raise BadState(f"{name} can't be read: {error.strerror or error}") from None
        if len(data) > most:
            raise BadState(f"{name} is larger than {most} bytes")
        return data


def _link(number: int) -> str:
    return f"{number:04d}.json"


def _originals(number: int) -> str:
    return f"{number:04d}.messages.jsonl"


def _as_link(number: int, data: bytes) -> SummaryLink:
    link = _parsed(SummaryLink, data, _link(number))
    if link.number != number:
        raise BadState(f"{_link(number)} is damaged: it says that it is number {link.number}")
    return link


def _line(model: Model) -> bytes:
    """A model as a line of JSON. A text may have lone surrogates, which pydantic does not write."""
    return (
        json.dumps(model.model_dump(), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        + b"\n"
    )


def _parsed(kind: type[M], data: bytes, name: str) -> M:
    try:
        return kind.model_validate(json.loads(data.decode("utf-8", "surrogatepass"), parse_constant=_never))
    except (ValidationError, ValueError, RecursionError) as error:
        why = explain(error) if isinstance(error, ValidationError) else f"{type(error).__name__}: {error}"
        raise BadState(f"{name} is damaged, or of another go-ent: {why[:300]}") from None


def _never(constant: str) -> Any:
    raise ValueError(f"{constant} is no number")
