"""One bad item is one bad item: what goes wrong with one of many things from outside is told under its name, and the
others go on.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, MutableMapping

from go_ent.composer.errors import ComposeRefused

log = logging.getLogger("go_ent.composer")
MAX_REASON = 1000


@contextlib.contextmanager
def apart(name: str, problems: MutableMapping[str, str]) -> Iterator[None]:
    """Whatever is raised within is the problem of the item *name*: it is put into *problems*, and the loop goes on."""
    try:
        yield
    except Exception as error:
        problems[name] = reason(error, name)


def reason(error: Exception, name: str) -> str:
    """Why an item can't be used, for people. What none of our own errors foresaw is logged with its traceback."""
    if isinstance(error, ComposeRefused):
        text = "; ".join(error.problems)
    elif isinstance(error, OSError):
        text = error.strerror or str(error)
    elif type(error).__module__.startswith("go_ent."):
        text = str(error)
    else:
        log.warning("%s failed in a way that nobody foresaw", name, exc_info=error)
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text if len(text) <= MAX_REASON else f"{text[:MAX_REASON]}…"
