"""Which tools code may call, in the project's own file: patterns are added and taken out, and comments stay."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from go_ent.composer.catalogue.grants import check_pattern, matches
from go_ent.composer.config import read_settings
from go_ent.composer.errors import ConfigError
from go_ent.engine.settings.edit import set_list


def grant(project: Path, patterns: Iterable[str], *, approve: bool = False) -> list[str]:
    """Let code call tools: adds to `[grants] allow`, and with *approve* to `approve` too. The lines that changed."""
    checked = [check_pattern(pattern) for pattern in patterns]
    lines: list[str] = []
    for name in ("allow", "approve") if approve else ("allow",):
        there = written(project, name)
        new = [pattern for pattern in checked if pattern not in there]
        if new:
            lines += set_list(project, "grants", name, list(dict.fromkeys([*there, *new])))
    return lines


def revoke(project: Path, patterns: Iterable[str]) -> list[str]:
    """Take patterns out of `[grants] allow`, and out of `approve`: see `not_granted`. The lines that changed."""
    gone = set(patterns)
    lines: list[str] = []
    for name in ("allow", "approve"):
        there = written(project, name)
        if gone.intersection(there):
            lines += set_list(project, "grants", name, [one for one in there if one not in gone])
    return lines


def not_granted(project: Path, pattern: str) -> str | None:
    """Why a pattern can't be taken out: it is not there by itself. None if it is."""
    allow = written(project, "allow")
    if pattern in (*allow, *written(project, "approve")):
        return None
    wider = [one for one in allow if matches(one, pattern)]
    rest = f" by itself, but by {', '.join(wider)}: revoke that, and grant what is to stay" if wider else ""
    return f"{pattern} is not granted{rest}"


def written(project: Path, name: str) -> list[str]:
    """The patterns in the file, without what the environment adds."""
    grants = read_settings(project, environ={}).of_file.get("grants", {})
    found = grants.get(name, []) if isinstance(grants, dict) else None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ConfigError(f"grants.{name} is not a list of texts: go-ent config check says where")
    return found
