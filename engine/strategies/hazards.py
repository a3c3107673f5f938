"""Hazards: what tasks that touch the same files, or hold the same mutex, must not do at once.

| | earlier task | later task | edge |
|---|---|---|---|
| RAW | writes | reads | carries data: without the write there is nothing to read |
| WAR | reads | writes | orders |
| WAW | writes | writes | orders |
| mutex | holds it | holds it | orders |

A path contains all that is below it. Paths are kept in a tree, and each access is compared with what lies above and
below it there: never with every other task. Where many edges would run from many tasks to many others, they meet in a
joint.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

GLOB = re.compile(r"[*?\[]")


def path_parts(path: str) -> tuple[str, ...]:
    """`src//./a.py` as ('.', 'src', 'a.py'). A part with a wildcard stands for the whole folder that it is in."""
    clean = posixpath.normpath(path)
    parts = [part for part in clean.split("/") if part not in {"", "."}]
    for index, part in enumerate(parts):
        if GLOB.search(part):
            parts = parts[:index]
            break
    return ("/" if clean.startswith("/") else ".", *parts)


class _Place:
    """One path: who wrote it last, who has read it since, and the last writers of what is below (`None`: joined
    ones).
    """

    __slots__ = ("below", "children", "readers", "writer")

    def __init__(self) -> None:
        self.children: dict[str, _Place] = {}
        self.writer: int | None = None
        self.readers: list[int] = []
        self.below: dict[_Place | None, int] = {}


class Hazards:
    """Takes the tasks in their order, and says of each what it must wait for."""

    def __init__(self, join: Callable[[Iterable[int]], int]) -> None:
        self._join = join
        self._root = _Place()
        self._holders: dict[str, int] = {}

    def of(
        self, task: int, reads: Sequence[str], writes: Sequence[str], mutex: Sequence[str]
    ) -> tuple[set[int], set[int]]:
        """What carries data to the task, and what merely comes before it."""
        read_paths, written_paths = [path_parts(path) for path in reads], [path_parts(path) for path in writes]
        # All is looked up before anything is noted: a task that reads what it writes must not wait for itself.
        needs = {before for path in read_paths for before in self._writers(path)}
        after = {before for path in written_paths for before in self._users(path)}
        after |= {self._holders[name] for name in mutex if name in self._holders}
        for path in read_paths:
            self._down(path)[-1].readers.append(task)
        for path in written_paths:
            self._write(path, task)
        self._holders.update(dict.fromkeys(mutex, task))
        return needs, after

    def _writers(self, path: tuple[str, ...]) -> Iterator[int]:
        above, place = self._along(path)
        writer = None
        for each in (*above, place):
            # A deeper writer is always the later one: writing a folder takes away what was noted below it.
            if each is not None and each.writer is not None:
                writer = each.writer
        if writer is not None:
            yield writer
        if place is not None and place.below:
            if len(place.below) > 1:
                # The joint stays even if one of them is written again: too careful, but never too many edges.
                place.below = {None: self._join(place.below.values())}
            yield from place.below.values()

    def _users(self, path: tuple[str, ...]) -> Iterator[int]:
        above, place = self._along(path)
        for each in above:
            if each.writer is not None:
                yield each.writer
            if len(each.readers) > 1:
                each.readers = [self._join(each.readers)]
            yield from each.readers
        if place is not None:
            for each in _tree(place):
                if each.writer is not None:
                    yield each.writer
                yield from each.readers

    def _along(self, path: tuple[str, ...]) -> tuple[list[_Place], _Place | None]:
        """The known places above a path, and its own."""
        above, place = [], self._root
        for part in path:
            above.append(place)
            found = place.children.get(part)
            if found is None:
                return above, None
            place = found
        return above, place

    def _down(self, path: tuple[str, ...]) -> list[_Place]:
        places = [self._root]
        for part in path:
            places.append(places[-1].children.setdefault(part, _Place()))
        return places

    def _write(self, path: tuple[str, ...], task: int) -> None:
        *above, place = self._down(path)
        gone = [each for each in _tree(place) if each.writer is not None]
        for each in above:
            for written in gone:
                each.below.pop(written, None)
            each.below[place] = task
        place.children, place.below, place.readers, place.writer = {}, {}, [], task


def _tree(place: _Place) -> Iterator[_Place]:
    left = [place]
    while left:
        place = left.pop()
        yield place
        left.extend(place.children.values())
