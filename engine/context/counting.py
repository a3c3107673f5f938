"""Counting what a context costs: exactly for one family of models, corrected for the others by what their providers report."""

from __future__ import annotations

import logging
import math
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from engine import tokens
from engine.context.models import Message

log = logging.getLogger("engine.context")

LOWEST, HIGHEST = 0.5, 3.0  # what one tokenizer counts of the same text is not further from another one
SMOOTHING = 0.3  # the weight of the newest report
LEAST = 200  # tokens: of a shorter request, what is around the text counts more than the text
MOST_MODELS = 500
LONGEST_NAME = 200

# An upper bound of the tokens of text as people and programs write it, without the ranks. A token is at least one byte. Of
# letters in words most tokens have four or more, of long runs without a blank (base64, hashes) never fewer than 4/3 on
# average; scripts that the encoding knows well are counted by the character, the others by the byte.
_RUN = re.compile(r"[A-Za-z0-9+/_=-]{16,}")
_PIECE = re.compile(r" ?[A-Z]?[a-z]{1,3}|[^\S\r\n]{1,8}|[0-9]{1,2}|[\s\S]")
_TWO = re.compile(r"[\u0080-\u02ff\u0800-\u0fff\u2000-\uffff]")
_THREE = re.compile(r"[\u1000-\u1fff]")
_FOUR = re.compile(r"[\U00010000-\U0010ffff]")


def estimate(text: str) -> int:
    """How many tokens *text* is at the most, by the kinds of its characters."""
    runs = sum(map(len, _RUN.findall(text)))
    rest = _RUN.sub(" ", text)
    wide = len(_TWO.findall(rest)) + 2 * len(_THREE.findall(rest)) + 3 * len(_FOUR.findall(rest))
    return math.ceil(runs * 0.75) + len(_PIECE.findall(rest)) + wide


class Counter:
    """Counts tokens with o200k_base, times what a model's provider was seen to count of the same.

    For any thread. It blocks: a megabyte takes a fifth of a second, the first count of a process half a second more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ratios: dict[str, float] = {}
        self._guessing = False

    def count(self, text: str, model: str | None = None) -> int:
        """How many tokens *text* is for a model. Text that looks like a special token is text."""
        counted = self._exact(text)
        return counted if model is None else math.ceil(counted * self.ratio(model))

    def ratio(self, model: str) -> float:
        """What a model counts for each token counted here."""
        with self._lock:
            return self._ratios.get(model, 1.0)

    def report(self, model: str, estimated: int, reported: int) -> None:
        """A provider counted *reported* tokens where `count(text)`, without a model, said *estimated*.

        What can't be the tokenizer's doing is not believed: then there was more in the request than the text.
        """
        if estimated < LEAST or not LOWEST <= reported / estimated <= HIGHEST or len(model) > LONGEST_NAME:
            return
        seen = reported / estimated
        with self._lock:
            if model in self._ratios:
                self._ratios[model] += SMOOTHING * (seen - self._ratios[model])
            elif len(self._ratios) < MOST_MODELS:
                self._ratios[model] = seen

    def state(self) -> dict[str, float]:
        """What was learnt of each model, as JSON can keep it."""
        with self._lock:
            return dict(self._ratios)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Counter:
        """A counter that knows what another one learnt; what does not make sense in *state* is left out."""
        counter = cls()
        for model, ratio in list(state.items())[:MOST_MODELS]:
            known = isinstance(model, str) and len(model) <= LONGEST_NAME and isinstance(ratio, int | float)
            if known and LOWEST <= ratio <= HIGHEST:
                counter._ratios[model] = float(ratio)
        return counter

    def _exact(self, text: str) -> int:
        if not self._guessing:
            try:
                return tokens.count(text)
            except Exception as error:  # a damaged file, no memory for it, no tiktoken: a count is needed all the same
                with self._lock:
                    first, self._guessing = not self._guessing, True
                if first:
                    log.warning("tokens can't be counted, and are estimated on the high side: %s: %s", type(error).__name__, error)
        return estimate(text)


class Tally:
    """What a growing list of messages costs. Each message is counted once, when it comes."""

    def __init__(self, counter: Counter, model: str | None = None) -> None:
        self._counter = counter
        self._model = model
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._sum = 0
        self._beside = 0

    def add(self, message: Message) -> int:
        """Counts a message, or takes the count that it came with. Returns its tokens; `ValueError` if its id is there already."""
        return self.replace((), message)

    def replace(self, ids: Iterable[str], message: Message) -> int:
        """One message in the place of others: returns its tokens. `KeyError`, and nothing is changed, if one of the others is not there."""
        gone = set(ids)
        counted = message.tokens or self._counter.count(message.text, self._model)
        with self._lock:
            if unknown := sorted(gone - self._counts.keys()):
                raise KeyError(unknown[0])
            if message.id in self._counts and message.id not in gone:
                raise ValueError(f"the message {message.id!r} is counted already")
            self._sum += counted - sum(self._counts.pop(name) for name in gone)
            self._counts[message.id] = counted
            if gone:  # it may have been those that were overestimated
                self._beside = max(self._beside, 0)
        return counted

    def reported(self, total: int) -> None:
        """The provider says what the messages of now are together, with all that it puts around them: that wins over the estimate."""
        with self._lock:
            self._beside = total - self._sum

    @property
    def total(self) -> int:
        with self._lock:
            return self._sum + self._beside
