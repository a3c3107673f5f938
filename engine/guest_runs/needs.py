"""Which environment variables a run needs: those that the servers refer to whose tools its code names.

Code is text here: it is searched for the words `tools.NAME`, and neither parsed nor run. What this misses is no gap in
a wall: a server whose variable is not set says so when it is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from go_ent.composer import Composer, ComposerError
from go_ent.composer.sources.server_config import REFERENCE

NAMED = re.compile(r"\btools\s*\.\s*([A-Za-z_]\w{0,99})")
MOST_TOOLS = 100  # composed tools that are looked into


async def needed_names(composer: Composer, *, code: str | None = None, tool: str | None = None) -> tuple[str, ...]:
    """The names, sorted. A composed tool is looked into, and those that it calls."""
    servers = _names_of(composer)
    found: set[str] = set()
    waiting, seen = [tool] if tool is not None else list(_named(code or "")), set[str]()
    while waiting and len(seen) < MOST_TOOLS:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in servers:
            found |= servers[name]
            continue
        try:
            waiting += _named((await composer.composed.get(name)).file.source)
        except ComposerError:
            continue
    return tuple(sorted(found))


def configured_names(composer: Composer) -> set[str]:
    """All that the configuration refers to."""
    return {name for names in _names_of(composer).values() for name in names}


def _named(text: str) -> set[str]:
    return set(NAMED.findall(text))


def _names_of(composer: Composer) -> dict[str, set[str]]:
    """By namespace; a reference that says what to use instead needs nothing."""
    sections = {**composer.config.servers, **composer.config.apis}
    return {
        namespace: {
            name for text in _texts(section.model_dump()) for name, other in REFERENCE.findall(text) if not other
        }
        for namespace, section in sections.items()
    }


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _all(value.values())
    elif isinstance(value, list | tuple):
        yield from _all(value)


def _all(values: Iterable[Any]) -> Iterator[str]:
    for one in values:
        yield from _texts(one)
