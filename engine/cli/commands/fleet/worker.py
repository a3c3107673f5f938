"""`go-ent worker`."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Annotated

from cyclopts import Parameter

from go_ent.composer.errors import ConfigError
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.commands.fleet.opening import configured
from go_ent.engine.cli.terminal.output import say
from go_ent.engine.cli.terminal.progress import QuietFlag

MOST_SLOTS = 256


def worker_command(
    *,
    labels: Annotated[str, Parameter(help="What this machine has, by commas: gpu,claude.")] = "",
    slots: Annotated[int | None, Parameter(help="Steps at a time; by default one for each core.")] = None,
    quiet: QuietFlag = False,
) -> int:
    """Run what others of this project's fleet send, until Ctrl-C or SIGTERM: then it takes nothing more, and ends once
    what it runs is done. A second signal ends it at once; others resume its work.
    """
    project, config = configured()
    names = [name for name in labels.split(",") if name]
    if any(not name.replace("-", "").replace("_", "").isalnum() or len(name) > 40 for name in names):
        raise UsageError("labels are names of letters, digits, - and _, separated by commas")
    most = (os.cpu_count() or 1) if slots is None else slots
    if not 1 <= most <= MOST_SLOTS:
        raise UsageError(f"--slots must be a number from 1 to {MOST_SLOTS}")
    if config.fleet.key_env is None:
        raise ConfigError("a worker runs only what is sealed with the fleet's key: set key_env in [fleet]")
    from go_ent.engine.fleet.worker.worker import Worker

    async def main() -> None:
        worker = await asyncio.to_thread(lambda: Worker(project, config, labels=names, slots=most))
        stopping: list[int] = []

        def stop() -> None:
            stopping.append(1)
            if len(stopping) > 1:
                os._exit(130)
            if worker.busy and not quiet:
                say("takes nothing more; waits for what runs (again to end at once)", err=True)
            worker.stop()

        loop = asyncio.get_running_loop()
        for one in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(one, stop)
        await worker.run(lambda name: None if quiet else say(f"worker {name} is ready, with {most} slots", err=True))

    asyncio.run(main())
    return 0
