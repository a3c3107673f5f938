"""The one way to import fastmcp: its settings are its defaults, whatever folder this is.

When it is imported it reads `.env` of the current folder, and variables. A folder of somebody else's could have it
write code and inputs to stderr, keep it from starting, or exhaust memory with a file that unfolds.
"""

from __future__ import annotations

import os
import sys
import threading

PREFIX = "FASTMCP_"
_lock = threading.Lock()


def load_fastmcp() -> None:
    """Import fastmcp, if nobody has, without a `.env` and without variables of its own."""
    with _lock:
        if "fastmcp" in sys.modules:
            return
        theirs = {name: os.environ.pop(name) for name in list(os.environ) if name.upper().startswith(PREFIX)}
        os.environ[f"{PREFIX}ENV_FILE"] = os.devnull  # which is no ordinary file, so that it is not read
        try:
            import fastmcp  # noqa: F401
        finally:
            del os.environ[f"{PREFIX}ENV_FILE"]
            os.environ.update(theirs)
