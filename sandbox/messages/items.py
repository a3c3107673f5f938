"""One bad item is one bad item: what goes wrong with one of many workers or runs is logged, and the others go on."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

log = logging.getLogger("go_ent.sandbox")


@contextlib.contextmanager
def apart(what: str) -> Iterator[None]:
    """Whatever is raised within is the problem of one item: it is logged as *what*, and goes no further."""
    try:
        yield
    except Exception:
        log.warning("%s", what, exc_info=True)
