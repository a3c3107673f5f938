"""What tests share: where the repository is, a shell, a served project, code, stand-ins for programs, recordings."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
