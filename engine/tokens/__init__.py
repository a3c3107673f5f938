"""Counting tokens with tiktoken, without a download: the ranks of o200k_base are shipped with the package."""

from __future__ import annotations

import binascii
import hashlib
import logging
import lzma
import math
import re
import threading
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken

log = logging.getLogger("go_ent.engine.tokens")
NAME = "o200k_base"
SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"  # of the ranks, as tiktoken itself pins it
SPECIAL = {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}
# characters: the tokenizer is slow on long words, and a million blanks in a row are more than its stack holds
SLICE = 50_000
_loading = threading.Lock()
_KINDS = tuple(re.compile(kind) for kind in ("[a-z]", "[A-Z]", "[0-9]", " "))
_SEAM = re.compile(r"\n(?=[^\s/])")  # no token of the encoding goes across it
PATTERN = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


class RanksDamaged(Exception):
    """Internal: raised when the shipped ranks are not what they should be. Tokens are estimated then."""


def encoding() -> tiktoken.Encoding:
    """The encoding, made when it is first needed: it takes half a second and a hundred megabytes, once for all
    threads.
    """
    with _loading:
        return _load()


@cache
def _load() -> tiktoken.Encoding:
    import tiktoken

    packed = resources.files("go_ent.engine.tokens").joinpath(f"{NAME}.tiktoken.xz").read_bytes()
    data = lzma.decompress(packed)
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise RanksDamaged(f"the ranks of {NAME} in this installation are damaged: install go-ent again")
    ranks = {
        binascii.a2b_base64(token): int(rank) for token, rank in (line.split() for line in data.splitlines() if line)
    }
    return tiktoken.Encoding(name=NAME, pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=SPECIAL)


@cache
def _usable() -> tiktoken.Encoding | None:
    try:
        return encoding()
    except Exception as error:  # a damaged file, no memory for it, no tiktoken: a count is still needed
        log.warning("tokens can't be counted, and are estimated on the high side: %s: %s", type(error).__name__, error)
        return None


def encode(text: str) -> list[int]:
    """The tokens of *text*, whatever it is; special tokens are the text that they are written with. Without the
    ranks, its characters.
    """
    ranks = _usable()
    if ranks is None:
        return [ord(character) for character in text]
    return [token for piece in _slices(text) for token in ranks.encode_ordinary(piece)]


def decode(tokens: list[int]) -> str:
    """The text of tokens that `encode` gave; a character that is cut through is left out."""
    ranks = _usable()
    if ranks is None:
        return "".join(chr(token) for token in tokens)
    return ranks.decode_bytes(tokens).decode("utf-8", "ignore")


def count(text: str) -> int:
    """How many tokens *text* is; without the ranks, an estimate on the high side."""
    ranks = _usable()
    return estimate(text) if ranks is None else sum(len(ranks.encode_ordinary(piece)) for piece in _slices(text))


def estimate(text: str) -> int:
    """About how many tokens *text* is, by the kinds of its characters; more, rather than fewer.

    A token is one byte at the least. Letters of words that the encoding does not know are about 1.4 to a token.
    """
    lower, upper, digits, blanks = (len(kind.findall(text)) for kind in _KINDS)
    wide = len(text.encode("utf-8", "surrogatepass")) - len(text)
    others = len(text) - lower - upper - digits - blanks
    return math.ceil(lower * 0.75 + digits * 0.5 + blanks * 0.25) + upper + others + wide


def _slices(text: str) -> Iterator[str]:
    """The text in pieces that the tokenizer can take, cut where no token is cut if there is such a place."""
    start = 0
    while len(text) - start > SLICE:
        end = start + SLICE
        seams = [found.end() for found in _SEAM.finditer(text, end - SLICE // 4, end)]
        end = seams[-1] if seams else end
        yield text[start:end]
        start = end
    yield text[start:]
