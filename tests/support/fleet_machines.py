"""Machines of a fleet for tests: worker processes that share nothing but a database."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from go_ent.engine.fleet.database import Address, Database
from go_ent.engine.fleet.dbos_adapter import migrate
from go_ent.engine.fleet.schema import init
from go_ent.sandbox.images.cache import cache_path
from tests.support import ROOT
from tests.support.postgres import Postgres

KEY = "k" * 40
CONFIG = '[fleet]\nurl_env = "FLEET"\nkey_env = "FLEET_KEY"\nnamespace = "{}"\n[grants]\nallow = ["*"]\n'
# A machine apart: own network, own name, and nothing of the others' folders; its own is what $3 mounts.
APART = """set -e
hostname "$1"
eval "$3"
mount -t tmpfs -o size=1m none "$(dirname "$2")"
mkdir "$2"
mount --move /mnt "$2"
shift 3
exec "$@"
"""
OWN_FOLDER = 'mount --bind "$2" /mnt'
SMALL_DISK = 'mount -t tmpfs -o size=2m none /mnt; cp -a "$2/." /mnt'


@dataclass
class Machine:
    """A worker process, with a home and a checkout of its own."""

    folder: Path
    process: subprocess.Popen[str]
    log: Path
    name: str = ""

    def ready(self) -> Machine:
        assert self.process.stdout is not None
        self.name = self.process.stdout.readline().strip()
        assert self.name, self.log.read_text()
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@dataclass
class Fleet:
    """A fleet under test: machines, and this process as one of its clients."""

    root: Path
    address: Address
    database: Database
    url: str
    machines: list[Machine] = field(default_factory=list)

    def checkout(self, name: str) -> Path:
        project = self.root / name
        (project / ".go-ent").mkdir(parents=True)
        (project / ".go-ent" / "config.toml").write_text(CONFIG.format(self.address.namespace))
        return project

    def start(
        self, slots: int = 2, *labels: str, cache: Path | None = None, apart: str = "", name: str = "", **also: str
    ) -> Machine:
        """Another machine. Wait for it with `ready`. To compile the image takes ten seconds of a core, so its cache is
        this process's unless another is given. *apart* has it in namespaces of its own, with that disk, by its *name*;
        *also* are environment variables.
        """
        project = self.checkout(f"m{len(self.machines)}")
        home = {"HOME": str(project / "home"), "XDG_DATA_HOME": str(project / "home"), "TMPDIR": "/tmp"}
        home["GO_ENT_CACHE"] = str(cache or cache_path())
        fleet = {"FLEET": self.url, "FLEET_KEY": KEY, "FLEET_EFFECTS": str(self.world), "GO_ENT_TRUST_PROJECT": "1"}
        (project / "home").mkdir()
        command = [sys.executable, "-m", "tests.support.fleet_worker", str(project), str(slots), *labels]
        if apart:
            own = ["unshare", "--net", "--mount", "--uts", "sh", "-c", APART]
            command = [*own, "sh", name or project.name, str(project), apart, *command]
        said = self.root.with_name(f"{self.root.name}-{project.name}.log")
        with open(said, "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **home, **fleet, **also},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.machines.append(Machine(project, process, said))
        return self.machines[-1]

    @property
    def world(self) -> Path:
        """Where effects are noted."""
        return self.root.with_name(f"{self.root.name}.effects")

    def effects(self) -> dict[str, int]:
        """How often each happened."""
        return dict(Counter(key for key, _ in self.seen()))

    def seen(self) -> list[tuple[str, int]]:
        """Each effect, with the process that had it."""
        text = self.world.read_text() if self.world.exists() else ""
        return [(key, int(process)) for key, process in (line.split() for line in text.splitlines())]

    def owner(self, execution_id: str) -> str:
        """The worker that has an execution."""
        rows = self.database.ask(
            "select m.name from $.slots s join $.members m on m.id = s.owner where s.id = %s", (execution_id,)
        )
        return rows[0][0] if rows else ""


@contextmanager
def machines(postgres: Postgres, folder: Path) -> Iterator[Fleet]:
    """A fleet with its tables. Its machines are killed at the end."""
    address = Address(postgres.url, postgres.url, f"w{uuid.uuid4().hex[:12]}")
    database = Database(address)
    init(database)
    migrate(address)
    made = Fleet(folder, address, database, postgres.url)
    yield made
    for machine in made.machines:
        with contextlib.suppress(ProcessLookupError):
            machine.process.send_signal(signal.SIGCONT)
        machine.kill()
    database.tell(f"drop schema {address.namespace} cascade")
    database.tell(f"drop schema {address.namespace}_dbos cascade")
    database.close()


async def until(true: Callable[[], bool]) -> None:
    """Until something is so. The bound is for what hangs: how long it takes, `make bench-fleet` measures."""

    def look() -> None:
        end = time.monotonic() + 90
        while not true():
            assert time.monotonic() < end
            time.sleep(0.02)

    await asyncio.to_thread(look)
