"""The one way to import fastmcp and mcp: with fastmcp's default settings, whatever folder this is.

When it is imported it reads `.env` of the current folder, and variables. A folder of somebody else's could have it
write code and inputs to stderr, keep it from starting, or exhaust memory with a file that unfolds.

Both define hundreds of models, of which a program uses a few dozen. Each is built when it is first used: building all
of them is a tenth of a server's start.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

PREFIX = "FASTMCP_"
ADAPTERS, REBUILD = "_defer_build", "model_rebuild"  # whether an adapter is built when it is used; to build a model now
_lock = threading.Lock()


def load_fastmcp() -> None:
    """Import them, if nobody has, without a `.env` and without variables of fastmcp's own."""
    with _lock:
        if "fastmcp" in sys.modules:
            return
        theirs = {name: os.environ.pop(name) for name in list(os.environ) if name.upper().startswith(PREFIX)}
        os.environ[f"{PREFIX}ENV_FILE"] = os.devnull  # which is no ordinary file, so that it is not read
        try:
            with models_built_when_used():
                import fastmcp  # noqa: F401
                import mcp  # noqa: F401
        finally:
            del os.environ[f"{PREFIX}ENV_FILE"]
            os.environ.update(theirs)


@contextmanager
def models_built_when_used() -> Iterator[None]:
    """Models and adapters that are defined meanwhile are built when they are first used, as if each had said
    `defer_build`, and so are models that are told to be built, without more.
    """
    config, adapters = BaseModel.model_config, TypeAdapter.__dict__[ADAPTERS]
    rebuild = BaseModel.__dict__[REBUILD]

    def later(cls: type[BaseModel], /, **options: Any) -> bool | None:
        return rebuild.__get__(None, cls)(**options) if options else None

    BaseModel.model_config = ConfigDict(**config, defer_build=True)
    setattr(TypeAdapter, ADAPTERS, True)
    setattr(BaseModel, REBUILD, classmethod(later))
    try:
        yield
    finally:
        BaseModel.model_config = config
        setattr(TypeAdapter, ADAPTERS, adapters)
        setattr(BaseModel, REBUILD, rebuild)
