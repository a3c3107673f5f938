"""Texts from elsewhere, made to fit."""

from __future__ import annotations


def shortened(text: str, most: int, *, end: bool = False) -> str:
    """Text that fits *most* characters, its beginning or its *end*, saying what was left out; and that can be
    written.
    """
    text = text.encode("utf-8", "replace").decode()
    if len(text) <= most:
        return text
    note = f"[… {len(text) - most} characters left out]"
    return f"{note}\n{text[-most:]}" if end else f"{text[:most]}\n{note}"
