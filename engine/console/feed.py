"""What is live: one look for all who watch the same thing, after something has changed, and only while anybody does.

A topic has a stamp, a short text that changes whenever what is shown does. What keeps executions says that something
has changed; then each thing that is watched, by whomever, is looked at once. Who watches is told the newest stamp
alone, so that a slow page has nothing to catch up with.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import field

from go_ent.dataclass import dataclass
from go_ent.engine.console.page import Stamp
from go_ent.engine.console.visit import Refused, Viewer
from go_ent.engine.executions.storage import StorageWatch
from go_ent.waiting import first_of

log = logging.getLogger("go_ent.engine.console")
REST_S = 0.4  # between two looks: a person does not notice, and a run beside it does
ALIVE_S = 15.0  # a line now and then: who is gone is noticed, and nobody between gives up
MOST_TOPICS = 16  # of one stream
MOST_STREAMS = 256
LONGEST = 200  # characters of a topic


@dataclass(eq=False, slots=True)
class _Stream:
    """One page that is told: the newest stamp of each topic, until it has taken it."""

    news: dict[str, str] = field(default_factory=dict)
    come: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, topic: str, stamp: str) -> None:
        self.news[topic] = stamp
        self.come.set()


@dataclass(eq=False, slots=True)
class _Watched:
    """One thing that somebody watches, as one caller sees it."""

    viewer: Viewer
    topic: str
    last: str
    streams: set[_Stream] = field(default_factory=set)


class Feed:
    """The streams of a console. Belongs to one event loop."""

    def __init__(self, stamps: Mapping[str, Stamp], watch: Callable[[Callable[[], None]], StorageWatch]) -> None:
        self._stamps, self._watch = dict(stamps), watch
        self._watched: dict[tuple[str, str], _Watched] = {}  # by caller and topic
        self._streams = 0
        self._looking: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()  # something, or who watches
        self.looks = 0
        self.closing = asyncio.Event()

    async def stamp(self, viewer: Viewer, topic: str) -> str:
        """The stamp of a topic as *viewer* sees it. Raises what there is to say against looking at it."""
        name, _, argument = topic[:LONGEST].partition(":")
        look = self._stamps.get(name)
        if look is None:
            raise Refused(404, "there is no such topic")
        return await look(viewer, argument)

    async def stream(self, viewer: Viewer, topics: list[str]) -> AsyncIterator[str]:
        """The events of some topics, as text for a browser; first the stamp that each has now."""
        if len(topics) > MOST_TOPICS or self._streams >= MOST_STREAMS:
            raise Refused(429, "too much is watched at once")
        mine = _Stream()
        for topic in dict.fromkeys(topics):
            mine.news[topic] = await self.stamp(viewer, topic)
        return self._events(viewer, mine)

    async def _events(self, viewer: Viewer, mine: _Stream) -> AsyncIterator[str]:
        watched = [self._add(viewer, topic, stamp, mine) for topic, stamp in mine.news.items()]
        self._streams += 1
        mine.come.set()
        try:
            yield "retry: 1000\n\n"
            while not self.closing.is_set():
                await first_of(mine.come, self.closing, timeout_s=ALIVE_S)
                if not mine.come.is_set():
                    yield ":\n\n"
                    continue
                mine.come.clear()
                news, mine.news = mine.news, {}
                for topic, stamp in news.items():
                    yield f"data: {json.dumps({'topic': topic, 'stamp': stamp})}\n\n"
            yield "event: bye\ndata: {}\n\n"
        finally:
            self._streams -= 1
            for one in watched:
                one.streams.discard(mine)
            self._changed.set()

    def _add(self, viewer: Viewer, topic: str, stamp: str, stream: _Stream) -> _Watched:
        key = viewer.caller.name, topic
        watched = self._watched.setdefault(key, _Watched(viewer, topic, stamp))
        watched.streams.add(stream)
        self._changed.set()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return watched

    async def _look(self) -> None:
        while self._watched:  # somebody may have come while the watch was closed
            await self._look_on()

    async def _look_on(self) -> None:
        """Look at each thing that is watched, whenever something has changed, until nothing is watched."""
        loop = asyncio.get_running_loop()

        def told() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._changed.set)

        watch, followed = self._watch(told), set[str]()
        try:
            while self._watched:
                await self._changed.wait()
                self._changed.clear()
                self._watched = {key: one for key, one in self._watched.items() if one.streams}
                wanted = {topic.partition(":")[2] for _, topic in self._watched} - {""}
                if wanted != followed:
                    watch.follow(followed := wanted)
                self.looks += 1
                for watched in list(self._watched.values()):
                    await self._tell(watched)
                await asyncio.sleep(REST_S)
        finally:
            await asyncio.to_thread(watch.close)

    async def _tell(self, watched: _Watched) -> None:
        try:
            stamp = await self.stamp(watched.viewer, watched.topic)
        except Exception as error:  # it is gone, say: the page finds out by itself
            stamp = f"gone: {type(error).__name__}"
        if stamp != watched.last:
            watched.last = stamp
            for stream in watched.streams:
                stream.tell(watched.topic, stamp)

    async def close(self) -> None:
        """End all streams."""
        self.closing.set()
        if self._looking is not None:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._looking
