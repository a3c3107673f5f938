"""What keeps a project's executions, its spending and its composed tools: chosen here, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from go_ent.composer.composed.store import composed_stores
from go_ent.composer.composed.tool_store import ToolStore
from go_ent.composer.project.image import Images
from go_ent.composer.project.trust import is_trusted
from go_ent.dataclass import dataclass
from go_ent.engine.budget.ledger import Ledger
from go_ent.engine.budget.sqlite_ledger import FileLedger
from go_ent.engine.core.config import FleetConfig, read_engine_config, read_engine_settings
from go_ent.engine.core.errors import Untrusted
from go_ent.engine.executions.storage import ExecutionStorage
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.guest_runs.elsewhere import Elsewhere
from go_ent.engine.storage.file_storage import FileStorage


@dataclass(frozen=True, slots=True)
class Storages:
    """All that a project keeps. Opening them reads nothing and writes nothing."""

    executions: ExecutionStorage
    ledger: Ledger
    tools: Sequence[ToolStore]  # the project's own, then the user's
    elsewhere: Elsewhere | None = None
    images: Images | None = None  # where they come from; None: they are this machine's own

    @property
    def for_composer(self) -> dict[str, Any]:
        """What a composer is given of them: nothing, if all is on this machine."""
        return {} if self.images is None else {"stores": self.tools, "images": self.images}


def open_storages(project: Path, fleet: FleetConfig | None = None, *, trusted: bool | None = None) -> Storages:
    """The storages of a project: its files, or the Postgres that *fleet* names, by default as it is configured.

    A folder that nobody has *trusted* does not choose a database: `Untrusted`.
    """
    fleet = fleet_of(project) if fleet is None else fleet
    if fleet.url_env is None:
        return Storages(FileStorage(project), FileLedger(project), composed_stores(project))
    if not (is_trusted(project) if trusted is None else trusted):
        raise Untrusted(f"the fleet of ${fleet.url_env}", str(project))
    from go_ent.engine.fleet.images import FleetImages
    from go_ent.engine.fleet.opening import open_fleet
    from go_ent.engine.fleet.sending import Sender

    executions, ledger, tools = open_fleet(project, fleet)
    return Storages(executions, ledger, tools, Sender(executions), FleetImages(executions.database))


def fleet_of(project: Path) -> FleetConfig:
    """What a project says of a fleet; the rest of its settings is not looked at if that is nothing."""
    layers = read_engine_settings(project)
    return read_engine_config(project, layers).fleet if "fleet" in layers.table else FleetConfig()


def open_store(project: Path) -> ExecutionStore:
    """The executions of a project, for who needs nothing else of it."""
    return ExecutionStore(open_storages(project).executions)
