"""A source that is not reached, since nobody has trusted the folder that names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from go_ent.composer.catalogue.spec import CallContext, ToolSpec
from go_ent.composer.errors import Unavailable


class Withheld:
    """A source that a folder names, and that is not reached: because nobody has trusted the folder, or because of
    what *reason* says.
    """

    local = True

    def __init__(self, namespace: str, project: Path, reason: str = "") -> None:
        self.namespace = namespace
        self.origin = f"{namespace} of {project.name}"
        untrusted = (
            "is not started: nobody has trusted this folder; look at its .go-ent/config.toml, then say go-ent "
            "trust there"
        )
        self._reason = f"{self.origin} {f'can not be used: {reason}' if reason else untrusted}"

    async def tools(self) -> list[ToolSpec]:
        raise Unavailable(self._reason)

    async def call(self, name: str, arguments: dict[str, Any], context: CallContext) -> Any:
        raise Unavailable(self._reason)

    async def close(self) -> None:
        pass
