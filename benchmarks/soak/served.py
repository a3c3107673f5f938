"""The project that is served, and its server's process: what it takes of the machine, and what is left when it has ended."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.soak.kinds import COMPOSED

ROOT = Path(__file__).parents[2]
GO_ENT = (sys.executable, "-c", "from go_ent.engine.cli import main; main()")
UPSTREAM = Path(__file__).parent / "upstream.py"
START_S = 120.0
END_S = 30.0
STILL_S = 65.0  # longer than an idle worker, or an idle thread, is kept
# The limits of the project are those of a server whose guests do small things: what ends a bad one soon ends it.
CONFIG = f"""
[grants]
allow = ["up.*"]

[limits]
timeout_s = 30.0
cpu_s = 10.0

[servers.up]
command = "{sys.executable}"
args = ["{UPSTREAM}"]
"""


@dataclass(frozen=True, slots=True)
class Use:
    """What a server takes at one moment. Memory is proportional (PSS): a page that three processes share counts for a third each.

    Pages of files are counted apart: how many others have mapped the same libraries at that moment says nothing of a server.
    """

    memory: dict[str, int]  # bytes, of the server, the zygote, its workers, and of the MCP server that is not ours
    mapped: int  # bytes of files that the server and its workers have mapped
    threads: int
    processes: int
    descriptors: dict[str, int]  # how many of each kind
    temporary: list[str]

    @property
    def own(self) -> int:
        """Bytes of the server and its workers."""
        return sum(size for name, size in self.memory.items() if name != UPSTREAM.stem)

    @property
    def at_rest(self) -> tuple[int, int, int]:
        return self.threads, self.processes, sum(self.descriptors.values())


@dataclass(slots=True)
class Served:
    """A server that runs."""

    process: subprocess.Popen[bytes]
    project: Path
    folder: Path
    url: str = ""
    seen: set[int] = field(default_factory=set)  # every process of its tree, so far

    def tree(self) -> list[int]:
        """The server and all that descends from it."""
        found, children = [self.process.pid], _children()
        for pid in found:
            found += children.get(pid, [])
        self.seen |= set(found)
        return found

    def use(self) -> Use:
        memory: dict[str, int] = {}
        mapped, pids = 0, self.tree()
        for pid in pids:
            if size := _pss(pid):
                name = self._name(pid)
                memory[name] = memory.get(name, 0) + size["Anon"] + size["Shmem"]
                mapped += size["File"] if name != UPSTREAM.stem else 0
        server = Path(f"/proc/{self.process.pid}")
        kinds: dict[str, int] = {}
        for link in server.joinpath("fd").iterdir():
            with contextlib.suppress(OSError):
                said = os.readlink(link).removeprefix(f"{self.folder}/")
                kind = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\[?[0-9]+\]?", "", said)
                kinds[kind] = kinds.get(kind, 0) + 1
        return Use(memory, mapped, len(list(server.joinpath("task").iterdir())), len(pids), kinds, self.temporary())

    def temporary(self) -> list[str]:
        """What is in its folder for temporary files."""
        return sorted(str(path.relative_to(self.folder / "tmp")) for path in (self.folder / "tmp").rglob("*"))

    def _name(self, pid: int) -> str:
        if pid == self.process.pid:
            return "server"
        try:
            said = Path(f"/proc/{pid}/cmdline").read_bytes()
            parent = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            return "gone"
        if str(UPSTREAM).encode() in said:
            return UPSTREAM.stem
        return "zygote" if parent == self.process.pid else "workers"

    def rest(self, patience_s: float) -> Use:
        """What it takes once it does nothing, and has given up what it does not need: when nothing has become less for a while."""
        until, last, since = time.monotonic() + patience_s, self.use(), time.monotonic()
        while time.monotonic() < until and time.monotonic() - since < STILL_S:
            time.sleep(1.0)
            now = self.use()
            if now.at_rest != last.at_rest:
                since = time.monotonic()
            last = now
        return last

    def end(self) -> tuple[int, list[int]]:
        """Ask it to end: its exit code, and which processes of its tree it has left."""
        self.tree()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(END_S)
        until = time.monotonic() + END_S
        while (left := [pid for pid in self.seen if _alive(pid, self.process.pid)]) and time.monotonic() < until:
            time.sleep(0.1)
        return code, left

    def said(self) -> str:
        return (self.folder / "err").read_text()


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Served]:
    """Make a project in *folder*, and serve it on a free port."""
    project, temporary = folder / "project", folder / "tmp"
    (project / ".go-ent").mkdir(parents=True)
    temporary.mkdir()
    (project / ".go-ent" / "config.toml").write_text(CONFIG)
    environment = {
        **os.environ,
        "GO_ENT_DATA": str(folder / "user"),
        "GO_ENT_TRUST_PROJECT": "1",
        "TMPDIR": str(temporary),
    }
    environment["PYTHONPATH"] = str(ROOT)
    for name, source in COMPOSED.items():
        (folder / f"{name}.py").write_text(source)
        subprocess.run(
            [*GO_ENT, "tool", "add", str(folder / f"{name}.py")],
            cwd=project,
            env=environment,
            check=True,
            capture_output=True,
        )
    with (folder / "err").open("wb") as err:
        process = subprocess.Popen(
            [*GO_ENT, "serve", "--http", "127.0.0.1:0"],
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=err,
            stderr=err,
        )
    served = Served(process, project, folder)
    try:
        until = time.monotonic() + START_S
        while not served.url:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"it does not listen: {served.said()}")
            if found := re.search(r"^listening on (http://\S+)$", served.said(), re.MULTILINE):
                served.url = found[1]
            time.sleep(0.05)
        yield served
    finally:
        process.kill()
        process.wait()


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with contextlib.suppress(OSError):
                parent = int((path / "stat").read_bytes().rpartition(b")")[2].split()[1])
                found.setdefault(parent, []).append(int(path.name))
    return found


def _pss(pid: int) -> dict[str, int]:
    """Its resident bytes, by kind; none of a process that has gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return {}
    return {
        name: int(size) << 10 for name, size in re.findall(r"^Pss_(Anon|File|Shmem):\s+(\d+) kB$", text, re.MULTILINE)
    }


def _alive(pid: int, server: int) -> bool:
    """Whether it still is what it was: a number may have been given to somebody else since."""
    try:
        said = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return pid != server and (b"sandbox.worker.zygote" in said or str(UPSTREAM).encode() in said)
