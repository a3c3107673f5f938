"""The languages that code may be in. Light: whoever names one needs nothing else."""

from __future__ import annotations

from typing import Literal

Language = Literal["python", "javascript", "typescript"]
LANGUAGES: tuple[Language, ...] = ("python", "javascript", "typescript")
