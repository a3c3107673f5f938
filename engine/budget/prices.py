"""What tokens cost. A model whose price nobody knows costs "unknown": it is never priced as another one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from go_ent.dataclass import dataclass
from go_ent.engine.budget.known_models import LONGEST_NAME, find, names
from go_ent.engine.core.config import PriceConfig
from go_ent.engine.core.models import Tokens

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider, TieredPrices

log = logging.getLogger("go_ent.engine.budget")
MILLION = 1_000_000
MOST_WARNINGS = 1000


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens, and who says so. Of a price with tiers, the first."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    source: Literal["config", "default", "genai-prices"]

    def cost(self, tokens: Tokens) -> float:
        cached = tokens.cache_read * self.cache_read + tokens.cache_write * self.cache_write
        return (tokens.input * self.input + tokens.output * self.output + cached) / MILLION


def _default(input: float, output: float) -> Price:
    return Price(input, output, input / 10, input * 1.25, "default")


# The documented defaults of the names that stand for "the newest of its kind".
ALIASES = MappingProxyType({"opus": _default(15, 75), "sonnet": _default(3, 15), "haiku": _default(0.25, 1.25)})


class Prices:
    """Prices of models by id: the configuration's, else the documented aliases', else the snapshot shipped with
    genai-prices.

    Nothing is downloaded. The snapshot is loaded when it is first needed, which takes a quarter of a second.
    """

    def __init__(self, overrides: Mapping[str, PriceConfig] | None = None) -> None:
        self._overrides = dict(overrides or {})

    def price(self, model: str | None) -> Price | None:
        """The price of a model, or None if it is not known; that is logged once for each model."""
        if model is None:
            return None
        found = self._own(model)
        if found is None and (listed := _listed(model)) is not None:
            found = listed.price
        if found is None:
            _warn_once(model)
        return found

    def cost(self, model: str | None, tokens: Tokens) -> float | None:
        """What the tokens cost in dollars, or None if the model's price is not known.

        A listed price with tiers (dearer above so many input tokens) goes by the sum it is given: for the sum of many
        requests, that is the most it can have cost.
        """
        if model is None:
            return None
        if (own := self._own(model)) is not None:
            return own.cost(tokens)
        if (listed := _listed(model)) is not None:
            return listed.cost(tokens)
        _warn_once(model)
        return None

    def _own(self, model: str) -> Price | None:
        for name in names(model):
            if (given := self._overrides.get(name)) is not None:
                return Price(
                    given.input,
                    given.output,
                    given.input if given.cache_read is None else given.cache_read,
                    given.input if given.cache_write is None else given.cache_write,
                    "config",
                )
        return ALIASES.get(model)


@dataclass(frozen=True, slots=True)
class _Listed:
    """A model of the snapshot."""

    provider: Provider
    model: ModelInfo

    @property
    def price(self) -> Price | None:
        now = self.model.get_prices(datetime.now(UTC))
        given, output = _first(now.input_mtok), _first(now.output_mtok)
        if given is None or output is None:  # priced by the second, the image or the request: tokens say nothing
            return None
        read, write = _first(now.cache_read_mtok), _first(now.cache_write_mtok)
        return Price(given, output, given if read is None else read, given if write is None else write, "genai-prices")

    def cost(self, tokens: Tokens) -> float:
        from genai_prices import Usage

        usage = Usage(
            input_tokens=tokens.input + tokens.cache_read + tokens.cache_write,  # theirs includes what was cached
            output_tokens=tokens.output,
            cache_read_tokens=tokens.cache_read,
            cache_write_tokens=tokens.cache_write,
        )
        return float(self.model.calc_price(usage, self.provider).total_price)


def _first(price: Decimal | TieredPrices | None) -> float | None:
    """A price, or the first tier of one."""
    return None if price is None else float(price if isinstance(price, Decimal) else price.base)


def _listed(model: str) -> _Listed | None:
    """The model in the snapshot, if it is one that is paid by the token."""
    for found in find(model):
        listed = _Listed(*found)
        if listed.price is not None:
            return listed
    return None


_warned: set[str] = set()
_warned_lock = threading.Lock()


def _warn_once(model: str) -> None:
    name = model[:LONGEST_NAME]
    with _warned_lock:
        if name in _warned or len(_warned) >= MOST_WARNINGS:
            return
        _warned.add(name)
    log.warning(
        'the price of %r is not known: its runs count in tokens; [prices."..."] in the configuration sets a price', name
    )
