"""The pages: each module here makes one `PAGE`. A new one is found by being here."""

from __future__ import annotations

import importlib
import pkgutil

from go_ent.engine.console.page import Page


def all_pages() -> list[Page]:
    """Every page."""
    found = []
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        page = getattr(importlib.import_module(module.name), "PAGE", None)
        if isinstance(page, Page) and page not in found:  # several modules may add to one
            found.append(page)
    return found
