"""A source that is not reached, since nobody has trusted the folder that names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from go_ent.composer.catalogue.spec import CallContext, ToolSpec
from go_ent.composer.errors import Unavailable
from go_ent.sandbox.messages.advice import Advice


class Withheld:
    """A source that a folder names, and that is not reached: because nobody has trusted the folder, or because of
    what *reason* says.
    """

    local = True

    def __init__(self, namespace: str, project: Path, reason: str = "") -> None:
        self.namespace = namespace
        self.origin = f"{namespace} of {project.name}"
        untrusted = "is not started: nobody has trusted this folder"
        self._reason = f"{self.origin} {f'can not be used: {reason}' if reason else untrusted}"
        self._advice = None if reason else Advice("trust", str(project))

    async def tools(self) -> list[ToolSpec]:
        raise Unavailable(self._reason, advice=self._advice)

    async def call(self, name: str, arguments: dict[str, Any], context: CallContext) -> Any:
        raise Unavailable(self._reason, advice=self._advice)

    async def close(self) -> None:
        pass
