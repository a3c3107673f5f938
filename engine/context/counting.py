"""Counting what a context costs: exactly for one family of models, corrected for the others by what their providers
report.
"""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path

from go_ent.composer.project.files import read_bounded, write_whole
from go_ent.engine import tokens

LOWEST, HIGHEST = 0.5, 2.0  # what one tokenizer counts of the same text is not further from another one
SMOOTHING = 0.3  # the weight of the newest report
LEAST = 200  # tokens: of a shorter request, what is around the text counts more than the text
MOST_MODELS = 500
LONGEST_NAME = 200
MAX_BYTES = 1 << 20


class Counter:
    """Counts tokens with o200k_base, times what a model's provider was seen to count of the same.

    For any thread. It blocks: a megabyte takes a fifth of a second, the first count of a process half a second more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ratios: dict[str, float] = {}
        self._kept: dict[str, float] = {}

    def count(self, text: str, model: str | None = None) -> int:
        """How many tokens *text* is for a model. Text that looks like a special token is text."""
        counted = tokens.count(text)
        return counted if model is None else math.ceil(counted * self.ratio(model))

    def ratio(self, model: str) -> float:
        """What a model counts for each token counted here."""
        with self._lock:
            return self._ratios.get(model, 1.0)

    def report(self, model: str, estimated: int, reported: int) -> None:
        """A provider counted *reported* tokens where `count(text)`, without a model, said *estimated*.

        What can't be the tokenizer's doing is not believed: then there was more in the request than the text.
        """
        if (
            not model
            or estimated < LEAST
            or not LOWEST * estimated <= reported <= HIGHEST * estimated
            or len(model) > LONGEST_NAME
        ):
            return
        seen = reported / estimated
        with self._lock:
            if model in self._ratios:
                self._ratios[model] += SMOOTHING * (seen - self._ratios[model])
            elif len(self._ratios) < MOST_MODELS:
                self._ratios[model] = seen

    @classmethod
    def remembered(cls, path: Path) -> Counter:
        """A counter that knows what another one learnt, in a file of `remember`; what does not make sense there is
        left out.
        """
        counter = cls()
        try:
            data = read_bounded(path, MAX_BYTES)
            found = json.loads(data) if len(data) <= MAX_BYTES else {}
        except (OSError, ValueError, RecursionError):
            found = {}
        for model, ratio in list(found.items())[:MOST_MODELS] if isinstance(found, dict) else ():
            if len(model) <= LONGEST_NAME and isinstance(ratio, int | float) and LOWEST <= ratio <= HIGHEST:
                counter._ratios[model] = float(ratio)
        counter._kept = dict(counter._ratios)
        return counter

    def remember(self, path: Path) -> None:
        """Keep what was learnt, if anything was. What two processes learn of a model is the last one's."""
        with self._lock:
            new = {model: ratio for model, ratio in self._ratios.items() if self._kept.get(model) != ratio}
            self._kept = dict(self._ratios)
        if new:
            others = Counter.remembered(path)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(path, json.dumps({**others._ratios, **new}).encode())
