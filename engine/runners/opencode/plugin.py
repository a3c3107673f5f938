"""A plugin for opencode's server: it marks what an agent's shell starts, so that it is found when the run is over.

The server ends the shell commands of a run that is aborted, but not what left their group, nor what a completed run
left behind. It asks its plugins for the environment of each shell command (`shell.env`): there the session's mark is
set, and what is for the server alone is taken out. A version that does not know the hook works as it would without the
plugin.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pydantic_core import to_json

from go_ent.engine.processes.trees import TAG, reap, reap_now

# Empty and not deleted: what is not named is taken from the server's own environment.
PLUGIN = """export default async () => ({
  "shell.env": async (asked, given) => {
    for (const name of %(hidden)s) given.env[name] = ""
    if (asked.sessionID) given.env.%(tag)s = %(prefix)s + asked.sessionID
  },
})
"""


class Plugin:
    """The plugin of one runner, in a folder that nobody else can read. `hidden` are variables that a shell finds
    empty.
    """

    def __init__(self, hidden: Iterable[str]) -> None:
        self._prefix = f"open-code/{secrets.token_hex(16)}/"  # nobody else's processes carry it
        self._text = PLUGIN % {
            "tag": TAG,
            "prefix": to_json(self._prefix).decode(),
            "hidden": to_json(list(hidden)).decode(),
        }
        self._folder: Path | None = None

    def address(self) -> str:
        """Where opencode finds it. It is written when it is first asked for; `OSError` if it can't be."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="go-ent-"))
        file = self._folder / "plugin.mjs"
        if not file.exists():
            file.write_text(self._text, encoding="utf-8")
        return file.as_uri()

    async def reap(self, sessions: Iterable[str]) -> None:
        """Ends all that the shells of these sessions started and left, also when it is cancelled meanwhile."""
        tags = [self._prefix + session for session in sessions]
        try:
            for tag in tags:
                await reap(tag)
        except asyncio.CancelledError:
            for tag in tags:
                reap_now(tag)  # better to block the loop than to leave children
            raise

    def remove(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
