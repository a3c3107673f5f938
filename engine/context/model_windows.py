"""How many tokens a model can read at once: the configuration says, else the list shipped with genai-prices, else
the default.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Literal

from go_ent.dataclass import dataclass
from go_ent.engine.budget.known_models import LONGEST_NAME, find, names, providers, with_slash
from go_ent.engine.budget.prices import ALIASES

log = logging.getLogger("go_ent.engine.context")
MOST_WARNINGS = 1000


@dataclass(frozen=True, slots=True)
class ModelWindow:
    """A model's context window, and who says so."""

    tokens: int
    source: Literal["config", "genai-prices", "default"]


class Windows:
    """The windows of models by id. Nothing is downloaded; the list is loaded when it is first needed."""

    def __init__(self, overrides: Mapping[str, int], default: int) -> None:
        for name, given in (*overrides.items(), ("the default", default)):
            if given <= 0:
                raise ValueError(f"a context window has at least one token: {name} has {given}")
        self._overrides = dict(overrides)
        self._default = default
        self._warned: set[str] = set()
        self._lock = threading.Lock()

    def window(self, model: str | None) -> ModelWindow:
        """The window of a model; for one that is not known the default, which is logged once for each model."""
        if model is not None:
            given, model = model, with_slash(model)
            for name in (*names(given), *names(model)):
                if (tokens := self._overrides.get(name)) is not None:
                    return ModelWindow(tokens, "config")
            if (listed := _listed(model)) is not None:
                return ModelWindow(listed, "genai-prices")
            self._warn_once(model[:LONGEST_NAME])
        return ModelWindow(self._default, "default")

    def _warn_once(self, name: str) -> None:
        with self._lock:
            if name in self._warned or len(self._warned) >= MOST_WARNINGS:
                return
            self._warned.add(name)
        log.warning(
            "the context window of %r is not known: it is taken for %d tokens; the configuration can set it",
            name,
            self._default,
        )


@lru_cache(maxsize=1000)
def _listed(model: str) -> int | None:
    """The window in the list: of the provider that the id is from, else the smallest that anybody offers the same
    model with.
    """
    if model in ALIASES:  # "the newest of its kind", whichever that is: the smallest of its kind
        own = (listed for provider in providers() if provider.id == "anthropic" for listed in provider.models)
        return min(
            (listed.context_window for listed in own if f"-{model}" in listed.id and listed.context_window),
            default=None,
        )
    for _, found in find(model):
        return found.context_window or _smallest().get(_short(found.id))
    return None


@cache
def _smallest() -> dict[str, int]:
    """The smallest window of each model, of all who offer it."""
    windows: dict[str, int] = {}
    for provider in providers():
        for model in provider.models:
            if model.context_window:
                name = _short(model.id)
                windows[name] = min(model.context_window, windows.get(name, model.context_window))
    return windows


def _short(name: str) -> str:
    """A model's id without the one who made it, or its variant: "google/gemini-2.5-pro:free" is "gemini-2.5-pro"."""
    return name.lower().rpartition("/")[2].partition(":")[0]
