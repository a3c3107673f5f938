"""What tokens cost: the configuration's prices, the documented aliases, the shipped list; and never another model's."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from go_ent.engine.budget import Prices
from go_ent.engine.core.config import PriceConfig
from go_ent.engine.core.models import Tokens
from tests.support import ROOT
from tests.support.rows import each

MILLION = Tokens(input=1_000_000, output=1_000_000)


@pytest.mark.parametrize(("alias", "given", "output"), [("opus", 15, 75), ("sonnet", 3, 15), ("haiku", 0.25, 1.25)])
def test_an_alias_costs_what_is_documented(alias: str, given: float, output: float) -> None:
    price = Prices().price(alias)
    assert price is not None
    assert (price.input, price.output, price.source) == (given, output, "default")
    assert (price.cache_read, price.cache_write) == pytest.approx((given * 0.10, given * 1.25))
    assert Prices().cost(alias, MILLION) == pytest.approx(given + output)
    assert Prices().cost(alias, Tokens(cache_read=1_000_000)) == pytest.approx(given * 0.10)
    assert Prices().cost(alias, Tokens(cache_write=1_000_000)) == pytest.approx(given * 1.25)


@pytest.mark.parametrize(
    ("model", "given", "output"),
    [
        ("claude-opus-4-1", 15, 75),
        ("claude-haiku-4-5-20251001", 1, 5),
        ("claude-3-haiku-20240307", 0.25, 1.25),
        ("anthropic/claude-opus-4-1-20250805", 15, 75),
        ("openrouter/anthropic/claude-opus-4.1", 15, 75),
        ("gpt-4o-2024-08-06", 2.5, 10),
        ("xai/grok-4", 3, 15),
    ],
)
def test_listed_models_have_their_own_price_dated_or_with_their_provider(
    model: str, given: float, output: float
) -> None:
    price = Prices().price(model)
    assert price is not None
    assert (price.input, price.output, price.source) == (given, output, "genai-prices")


def test_what_was_cached_has_its_own_price() -> None:
    tokens = Tokens(input=1000, output=100, cache_read=10_000, cache_write=2000)
    assert Prices().cost("claude-opus-4-1", tokens) == pytest.approx(
        (1000 * 15 + 100 * 75 + 10_000 * 1.5 + 2000 * 18.75) / 1e6
    )


def test_a_price_that_rises_with_the_input_is_followed() -> None:
    below, above = (
        Prices().cost("gemini-2.5-pro", Tokens(input=200_000)),
        Prices().cost("gemini-2.5-pro", Tokens(input=400_000)),
    )
    assert below is not None
    assert above is not None
    assert above > 2 * below


def test_the_configuration_comes_first() -> None:
    prices = Prices(
        {"sonnet": PriceConfig(input=1, output=2), "claude-opus-4-1": PriceConfig(input=7, output=8, cache_read=0.5)}
    )
    assert prices.cost("sonnet", MILLION) == 3
    assert prices.cost("claude-opus-4-1-20250805", MILLION) == 15, "a dated id is its base"
    assert prices.cost("claude-opus-4-1", Tokens(cache_read=1_000_000, cache_write=1_000_000)) == 7.5, (
        "without a price, as input"
    )
    assert prices.cost("haiku", MILLION) == 1.5, "what is not configured stays"


def test_an_exact_id_comes_before_its_base() -> None:
    prices = Prices({"mine": PriceConfig(input=1, output=1), "mine-20250101": PriceConfig(input=2, output=2)})
    assert prices.cost("mine-20250101", MILLION) == 4
    assert prices.cost("mine-2025-02-02", MILLION) == 2


@each(
    "model",
    [
        "nobodys-model",
        "claude-opus-4-51",  # begins like a listed one
        "claude-sonnet-9-9-20990101",
        "my-sonnet",
        "Sonnet",
        "sonnet-20250101",
        "openai-compatible/gpt-4o",  # whatever is served there
        "ollama/gpt-4o",
        "whisper-1",  # not paid by the token
        "",
        "/",
        "a" * 100_000,
    ],
)
def test_an_unknown_model_has_no_price(model: str) -> None:
    assert Prices().price(model) is None
    assert Prices().cost(model, MILLION) is None


def test_an_unknown_model_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "go_ent.engine.budget"):
        for _ in range(3):
            Prices().price("warned-about-once")
            Prices().cost("warned-about-once", MILLION)
        Prices().cost("warned-about-too\nforged line", MILLION)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "'warned-about-once' is not known" in said[0]
    assert "\n" not in said[1]


def test_no_model_has_no_price_and_needs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert Prices().cost(None, MILLION) is None
    assert Prices().price(None) is None
    assert not caplog.records


def test_pricing_uses_no_network_and_loads_nothing_for_what_is_configured() -> None:
    code = """
import socket, sys
def refuse(*given): raise AssertionError("a network was asked for")
socket.socket.connect = socket.getaddrinfo = refuse
from go_ent.engine.budget import Prices
from go_ent.engine.core.models import Tokens
Prices().cost("opus", Tokens(input=1))
print("genai_prices" in sys.modules, Prices().cost("claude-opus-4-1", Tokens(input=1_000_000)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.stdout, done.stderr) == ("False 15.0\n", "")
