"""The models that are known: the list shipped with genai-prices. Nothing is downloaded; it is loaded when it is
first needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from go_ent.composer.project.numbers import DIGITS

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, Provider

LONGEST_NAME = 200
DATED = re.compile(r"(.+)[-@]20(?:[0-9]{6}|[0-9]{2}-[0-9]{2}-[0-9]{2})")

# What opencode and its catalogue call the providers that genai-prices has under another id. Anything else must be its
# id exactly: the library's own search takes "openai-compatible", whatever runs there, for OpenAI.
PROVIDERS = MappingProxyType(
    {
        "amazon-bedrock": "aws",
        "fireworks-ai": "fireworks",
        "google-vertex": "google",
        "google-vertex-anthropic": "anthropic",
        "togetherai": "together",
        "xai": "x-ai",
    }
)
WAYS = {  # pydantic-ai's names for ways to the same provider
    "google-cloud": "google",
    "google-gla": "google",
    "google-vertex": "google",
    "openai-chat": "openai",
    "openai-responses": "openai",
}


def names(model: str) -> tuple[str, ...]:
    """A model's id as it is, then without its date."""
    dated = DATED.fullmatch(model) if len(model) <= LONGEST_NAME else None
    return (model, dated[1]) if dated else (model,)


def with_slash(model: str) -> str:
    """A model's id, also one that is written in pydantic-ai's way: `openai-chat:gpt-5` is `openai/gpt-5`."""
    provider, colon, rest = model.partition(":")
    if not colon or "/" in provider:  # google/gemini-2.5-pro:free is an id as it is
        return model
    return f"{WAYS.get(provider, provider)}/{rest}"


def find(model: str) -> Iterator[tuple[Provider, ModelInfo]]:
    """The model in the list: by its id as it is, then without its date; with a provider before it, of that provider
    only.
    """
    if len(model) > LONGEST_NAME:
        return
    for name in names(model.lower()):
        provider, slash, rest = name.partition("/")
        found = _find(rest, PROVIDERS.get(provider, provider)) if slash else _find(name, None)
        if found is not None:
            yield found


def providers() -> list[Provider]:
    """Everybody in the list."""
    return _snapshot().providers


def _find(name: str, provider_id: str | None) -> tuple[Provider, ModelInfo] | None:
    snapshot = _snapshot()
    if provider_id is not None and all(provider.id != provider_id for provider in snapshot.providers):
        return None
    try:
        provider, model = snapshot.find_provider_model(name, None, provider_id, None)
    except LookupError:
        return None
    # Some models are matched by how their id begins: claude-opus-4-5 would also price claude-opus-4-51.
    name, base = name.replace(".", "-"), model.id.lower().replace(".", "-")
    if name.startswith(base) and name[len(base) : len(base) + 1] in DIGITS:
        return None
    return provider, model


@cache
def _snapshot() -> DataSnapshot:
    """A snapshot of our own from the shipped data: an updater that someone else starts in this process does not
    change it.
    """
    from genai_prices.data import providers
    from genai_prices.data_snapshot import DataSnapshot

    return DataSnapshot(providers=providers, from_auto_update=False)
