"""Programs that stand in for agents: how a project's configuration names them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.support import ROOT

STANDINS = ROOT / "tests" / "support" / "standins"


def stand_in(name: str, says: str, folder: Path) -> dict[str, Any]:
    """The settings of a runner that replays what the real program was recorded to say; what it was given is written
    down in *folder*.
    """
    return {
        "command": [sys.executable, "-I", "-S", str(STANDINS / f"{name}.py")],
        "set": {
            "STANDIN_SAYS": says,
            "STANDIN_LOG": str(folder / f"{name}.log"),
            "STANDIN_CHILD": str(folder / "child"),
        },
        "serve_tools": False,
    }


def stand_in_config(says: str, folder: Path) -> str:
    """The same for Claude Code, as a part of a configuration file."""
    settings = stand_in("claude", says, folder)
    named = ", ".join(f"{name} = {json.dumps(value)}" for name, value in settings["set"].items())
    command = json.dumps(settings["command"])
    return f"[runners.claude-code]\ncommand = {command}\nset = {{ {named} }}\nserve_tools = false\n"
