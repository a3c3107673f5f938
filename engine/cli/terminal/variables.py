"""Environment variables with our prefix that nothing reads: a typo that would otherwise do nothing, silently."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

PREFIX, SETTING = "GO_ENT_", "GO_ENT__"
# All that some part of this program reads, or sets for those that it starts.
KNOWN = frozenset(
    f"{PREFIX}{name}"
    for name in "CACHE CRASH DATA FLEET FLEET_DIRECT FLEET_KEY OWNER PAGER PICTURES RUN TOKEN TRUST_PROJECT".split()
)


def unknown_variables(named: Iterable[str] = (), environ: Mapping[str, str] | None = None) -> list[str]:
    """A line for each that nothing reads; those that are *named* elsewhere are read. Settings have their own check."""
    found = []
    for name in sorted(os.environ if environ is None else environ):
        if name.startswith(PREFIX) and not name.startswith(SETTING) and name not in KNOWN and name not in named:
            from go_ent.sandbox.messages.near_names import did_you_mean, near

            hint = did_you_mean(near(name, KNOWN, 1, 0.8)) or f"; a setting is {SETTING}SECTION__SETTING"
            found.append(f"the environment variable {name[:100]} means nothing here{hint}")
    return found[:20]
