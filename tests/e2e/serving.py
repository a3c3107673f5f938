"""A project that is served to real clients: over stdio by a command of theirs, or over HTTP by one of ours."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from go_ent.sandbox.images import cache_folder
from tests.support import ROOT

START = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from {{}} import main; main()"
GO_ENT = (sys.executable, "-P", "-c", START.format("go_ent.engine.cli"))
WITH_FIXTURES = (sys.executable, "-P", "-c", START.format("tests.e2e.fixtures"))
START_S = 60.0
TWICE = '''# /// tool
# name = "twice"
# ///
# /// examples
# {"inputs": {"x": 2}, "result": 4}
# ///
def twice(x: int) -> int:
    """A number, doubled."""
    return 2 * x
'''


@dataclass(frozen=True)
class Project:
    """A folder with go-ent's state, and a home that is nobody's."""

    folder: Path
    home: Path
    given: dict[str, str] = field(default_factory=dict)  # variables

    @classmethod
    def make(cls, folder: Path, config: str = "") -> Project:
        made = cls(folder / "project", folder / "home")
        (made.home / ".cache").mkdir(parents=True)
        # The sandbox's image takes long to build, and is not what is tested here.
        (made.home / ".cache" / "go-ent").symlink_to(cache_folder())
        (made.folder / ".go-ent").mkdir(parents=True)
        (made.folder / ".go-ent" / "config.toml").write_text(config)
        return made

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("LANG",) if name in os.environ}
        return {**kept, "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), **self.given}

    def go_ent(self, *arguments: str) -> str:
        done = subprocess.run(
            [*GO_ENT, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextlib.contextmanager
    def over_http(self, command: Sequence[str] = (*GO_ENT, "serve", "--http", "127.0.0.1:0")) -> Iterator[str]:
        """The address of a server over this project, while it runs."""
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stderr=pipe, text=True
        ) as served:
            told = _Listener(served)
            try:
                yield told.address()
            finally:
                served.terminate()
                try:
                    served.wait(20)
                finally:
                    served.kill()
                    told.join()


class _Listener:
    """Reads what a server says, so that it never waits for a reader; and finds its address in it."""

    def __init__(self, served: subprocess.Popen[str]) -> None:
        self._served, self._lines, self._found = served, [""], threading.Event()
        self._address = ""
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        assert self._served.stderr is not None
        for line in self._served.stderr:
            self._lines.append(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+/mcp", line):
                self._address = found[0]
                self._found.set()
        self._found.set()

    def address(self) -> str:
        assert self._found.wait(START_S), f"it did not say its address in {START_S} s: {''.join(self._lines)}"
        assert self._address, f"it ended: {''.join(self._lines)}"
        return self._address

    def join(self) -> None:
        self._thread.join()


@dataclass(frozen=True)
class Called:
    """What the inspector said of one request."""

    code: int
    said: dict[str, Any]
    errors: str

    @property
    def text(self) -> str:
        return "\n".join(part.get("text", "") for part in self.said.get("content", []))

    @property
    def structured(self) -> dict[str, Any]:
        found: dict[str, Any] = self.said.get("structuredContent") or {}
        return found


def ask_inspector(node: Path, inspector: Path, target: Sequence[str], project: Project, *options: str) -> Called:
    """One request by the inspector's command line."""
    argv = [str(node), str(inspector), "--cli", *target, "--format", "json", "--connect-timeout", "60000", *options]
    done = subprocess.run(
        argv,
        cwd=project.home,
        env=project.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    try:
        said = json.loads(done.stdout)
    except ValueError:
        said = {}
    return Called(done.returncode, said.get("result", said), done.stderr)
