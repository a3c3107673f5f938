"""A page of the console: its place, its entry in the navigation, what it answers, and what of it is live."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import TYPE_CHECKING

from starlette.responses import Response

from go_ent.dataclass import dataclass

if TYPE_CHECKING:
    from go_ent.engine.console.visit import Viewer, Visit

Answer = Callable[["Visit"], Awaitable[Response]]
Stamp = Callable[["Viewer", str], Awaitable[str]]
Badge = Callable[["Viewer"], Awaitable[int]]


@dataclass(eq=False, slots=True)
class Page:
    """One page, or several that belong together, below *path*.

    A module of `pages` makes one as `PAGE`, and adds what it answers with `get` and `post`. With an *order* it is in
    the navigation; *key* is what people type for it after `g`.
    """

    path: str
    title: str
    order: int = 0
    key: str = ""
    routes: list[tuple[str, str, Answer]] = field(default_factory=list)  # method, path, what answers
    stamps: dict[str, Stamp] = field(default_factory=dict)  # by topic
    badge: Badge | None = None  # how many things there wait for a person

    def get(self, path: str = "") -> Callable[[Answer], Answer]:
        """Answer a GET below the page's own path: `""`, or `/{id}`."""
        return self._route("GET", path)

    def post(self, path: str = "") -> Callable[[Answer], Answer]:
        """Do something: the form's token was checked before."""
        return self._route("POST", path)

    def _route(self, method: str, path: str) -> Callable[[Answer], Answer]:
        def add(answer: Answer) -> Answer:
            self.routes.append((method, self.path + path, answer))
            return answer

        return add

    def stamp(self, topic: str) -> Callable[[Stamp], Stamp]:
        """Make something live: what this gives changes whenever what is shown under *topic* does.

        It is asked whenever something has changed while anybody looks, some times a second at the most, once for all
        who do; so it must be cheap. What comes after a colon in a page's topic is the execution that it is about.
        """

        def add(stamp: Stamp) -> Stamp:
            self.stamps[topic] = stamp
            return stamp

        return add
