"""The ready-made tools that come with go-ent: in the repository's `composed-tools/`, and in every installation."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from go_ent.sandbox.worker.languages import SUFFIXES


def shipped_folder() -> Path | None:
    """Where they are, or None if this installation has none."""
    beside = Path(__file__).resolve().parents[2] / "composed-tools"  # in a checkout
    installed = Path(sysconfig.get_path("data")) / "share" / "go-ent" / "composed-tools"
    return next((folder for folder in (beside, installed) if folder.is_dir()), None)


def shipped_tools() -> dict[str, Path]:
    """Their files by name."""
    folder = shipped_folder()
    paths = [] if folder is None else sorted(folder.iterdir())
    return {path.stem: path for path in paths if path.suffix in SUFFIXES.values()}
