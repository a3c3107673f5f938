"""A server whose tools a test writes to a file, and how often it was started."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from go_ent.composer.sources.server_config import ServerConfig
from tests.support import ROOT

SCRIPT = ROOT / "tests" / "support" / "servers" / "file_server.py"


def tool(name: str, description: str = "", **schema: Any) -> dict[str, Any]:
    """A tool as a server lists it; *schema* are its parameters by name."""
    inputs = {"type": "object", "properties": schema, "required": list(schema)}
    return {"name": name, "description": description, "inputSchema": inputs}


class FileServer:
    """The server of one folder. `say` is what it lists from now on."""

    def __init__(self, folder: Path, *tools: dict[str, Any], **said: Any) -> None:
        self._tools, self._starts = folder / "listed.json", folder / "starts.txt"
        self.say(*tools, **said)

    def say(self, *tools: dict[str, Any], **said: Any) -> None:
        self._tools.write_text(json.dumps({"tools": tools, **said}))

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-S", "-E", str(SCRIPT), str(self._tools), str(self._starts)]

    def config(self, **options: Any) -> ServerConfig:
        command, *args = self.command
        return ServerConfig(command=command, args=args, **options)

    @property
    def starts(self) -> int:
        return len(self._starts.read_text().split()) if self._starts.exists() else 0
