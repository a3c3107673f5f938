"""What keeps composed tools, as a protocol: their files are one way to do it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, Protocol

from go_ent.composer.composed.toolfile import ToolFile
from go_ent.composer.errors import ComposeRefused, StoreError
from go_ent.dataclass import dataclass
from go_ent.sandbox.messages.advice import Advice

StoreScope = Literal["project", "global"]


def already_there(name: str, scope: StoreScope) -> ComposeRefused:
    """Why a tool is not saved that was not to replace another."""
    whose = "this project" if scope == "project" else "the user's own store"
    return ComposeRefused(name, [f"{whose} has another tool of that name"], advice=Advice("replace", name, "replace"))


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a tool, in the history."""

    number: int
    digest: str  # the first 16 digits
    saved: float


def no_version(name: str, number: int, versions: Iterable[Version]) -> StoreError:
    """Why a version can't be had that never was."""
    known = ", ".join(str(version.number) for version in versions) or "none"
    return StoreError(f"{name} has no version {number}; it has {known}")


@dataclass(frozen=True, slots=True)
class Found:
    """A file in the store as it is now; not yet known to be a tool."""

    name: str
    stamp: tuple[int, int, int]  # changes when the file does


class ToolStore(Protocol):
    """The composed tools of a project, or of a user, with every version there ever was. Safe with any number of
    processes at once. The methods block.
    """

    @property
    def scope(self) -> StoreScope:
        """Whose tools they are."""

    @property
    def where(self) -> str:
        """What messages call the place."""

    def scan(self) -> Mapping[str, Found]:
        """The files there are: the same object as before, if they are what they were. One whose name is no tool's is
        not one; it is in `strangers`.
        """

    def find(self, name: str) -> Found | None:
        """The file of one tool, if it is there."""

    def strangers(self) -> list[str]:
        """Python files in the folder that can't be tools, because of their names."""

    def ignored(self) -> list[str]:
        """What stands in the histories of its tools and is no version of theirs, for people."""

    def read(self, name: str) -> ToolFile | None:
        """The current file of a tool; ComposeRefused if it is not a tool's file."""

    def text(self, name: str) -> str:
        """What is in the file of a tool, whether or not that is one; `StoreError` if it can't be read."""

    def versions(self, name: str, *, whole: bool = False) -> list[Version]:
        """Every version of a tool, the oldest first; also of one that was removed. The content of older ones is looked
        at with *whole*, and when they are used.
        """

    def version(self, name: str, number: int) -> ToolFile:
        """An earlier version's file."""

    def save(self, file: ToolFile, *, replace: bool = True) -> tuple[Version, bool]:
        """Make *file* the current version of its tool; whether that is a new version. The same content again is none.

        Without *replace*, another tool of that name is left alone, and `ComposeRefused` says so.
        """

    def adopt(self, file: ToolFile) -> Version:
        """Record a file that was edited by hand as a version. If it has changed again meanwhile, the next look will
        see.
        """

    def remove(self, name: str) -> None:
        """Remove a tool; its versions stay in the history."""

    def rollback(self, name: str, number: int) -> Version:
        """Bring an earlier version back, as a new version with its content."""
