"""The names in the copies of listings (`listing.py`), read without checking a whole copy: for shells that complete."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from go_ent.composer.catalogue.spec import NAMESPACE, part_of
from go_ent.composer.errors import BadName
from go_ent.composer.project.files import read_bounded, user_data

MOST_BYTES = 16 << 20


def listings_folder(project: Path) -> Path:
    """Where the copies for a project are: in the user's own folder."""
    return user_data() / "listings" / hashlib.sha256(os.fsencode(project.resolve())).hexdigest()[:32]


def kept_names(project: Path, namespace: str) -> list[str]:
    """The full names of the tools that a server had when it was last asked; none of what can't be read."""
    if not NAMESPACE.fullmatch(namespace):
        return []
    try:
        tools = json.loads(read_bounded(listings_folder(project) / f"{namespace}.json", MOST_BYTES))["tools"]
        return [f"{namespace}.{part_of(str(tool['upstream']))}" for tool in tools]
    except (OSError, ValueError, RecursionError, TypeError, KeyError, BadName):
        return []
