"""What tests share: where the repository is, a shell, a served project, code, stand-ins for programs, recordings."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
SMALL_SERVER = ROOT / "tests" / "support" / "servers" / "small_server.py"
