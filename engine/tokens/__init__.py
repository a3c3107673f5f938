"""Counting tokens with tiktoken, without a download: the ranks of o200k_base are shipped with the package."""

from __future__ import annotations

import binascii
import hashlib
import lzma
import re
import threading
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken

NAME = "o200k_base"
SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"  # of the ranks, as tiktoken itself pins it
SPECIAL = {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}
SLICE = 50_000  # characters: the tokenizer is slow on long words, and a million blanks in a row are more than its stack holds
_loading = threading.Lock()
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
    """Raised when the shipped ranks are not what they should be."""


def encoding() -> tiktoken.Encoding:
    """The encoding, made when it is first needed: it takes half a second and a hundred megabytes, once for all threads."""
    with _loading:
        return _load()


@cache
def _load() -> tiktoken.Encoding:
    import tiktoken

    packed = resources.files("engine.tokens").joinpath(f"{NAME}.tiktoken.xz").read_bytes()
    data = lzma.decompress(packed)
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise RanksDamaged(f"the ranks of {NAME} in this installation are damaged: install go-ent again")
    ranks = {binascii.a2b_base64(token): int(rank) for token, rank in (line.split() for line in data.splitlines() if line)}
    return tiktoken.Encoding(name=NAME, pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=SPECIAL)


def encode(text: str) -> list[int]:
    """The tokens of *text*, whatever it is; special tokens are the text that they are written with."""
    return [token for piece in _slices(text) for token in encoding().encode_ordinary(piece)]


def count(text: str) -> int:
    """How many tokens *text* is."""
    return sum(len(encoding().encode_ordinary(piece)) for piece in _slices(text))


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
