"""`make demo-fleet`: a Postgres and three workers on this machine, a graph of 60 tasks, and one worker killed."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from go_ent.engine import Engine, Plan
from tests.support.postgres import Postgres

CONFIG = '[fleet]\nurl_env = "DEMO_FLEET"\nkey_env = "DEMO_FLEET_KEY"\n'
GO_ENT = [sys.executable, "-m", "go_ent"]
TASKS, WORKERS = 60, 3


def checkout(root: Path, name: str) -> Path:
    """A machine's own checkout of the project."""
    folder = root / name
    (folder / ".go-ent").mkdir(parents=True)
    (folder / ".go-ent" / "config.toml").write_text(CONFIG)
    return folder


def graph() -> Plan:
    """Each task adds up what two earlier ones came to."""
    tasks = []
    for number in range(TASKS):
        before = sorted({number // 2, number // 3} - {number}) if number > 2 else []
        code = f"import asyncio\nawait asyncio.sleep(0.2)\n{number} * {number}"
        tasks.append({"id": f"t{number}", "code": code, "depends_on": [f"t{one}" for one in before]})
    return Plan.model_validate({"task": tasks})


def start(root: Path, name: str) -> tuple[subprocess.Popen[str], str]:
    worker = subprocess.Popen(
        [*GO_ENT, "worker", "--slots", "2"], cwd=checkout(root, name), stderr=subprocess.PIPE, text=True
    )
    assert worker.stderr is not None
    said = worker.stderr.readline().strip()
    print(f"  {said}")
    return worker, said.split()[1]


async def run(root: Path, workers: dict[str, subprocess.Popen[str]]) -> None:
    async with Engine(checkout(root, "client"), trusted=True) as engine:
        began = time.monotonic()
        execution = await engine.start(graph(), concurrency=16)
        print(f"sent a graph of {TASKS} tasks as execution {execution}")
        while len(records := (await engine.status(execution)).results) < TASKS // 4:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        name = next(iter(workers))
        workers[name].kill()
        print(f"{len(records)} tasks are done: kill -9 {name}")
        result = await engine.wait(execution)
        finished = [
            record["step"]
            for record in await asyncio.to_thread(lambda: list(engine.store.records(execution)))
            if record["kind"] == "step_finished"
        ]
        right = all(step.structured == int(step.task_id[1:]) ** 2 for step in result.steps)
        print(f"{result.status} after {time.monotonic() - began:.1f} s: {len(finished)} results on record, ", end="")
        print(f"of {len(set(finished))} tasks; all values are right: {right}")
        assert result.ok
        assert right
        assert sorted(finished) == sorted(set(finished))


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="go-ent-fleet-"))
    server = Postgres(root.with_name(f"{root.name}-pg"))
    workers: dict[str, subprocess.Popen[str]] = {}
    print("starting Postgres, on a local socket")
    server.start()
    os.environ |= {"DEMO_FLEET": server.url, "DEMO_FLEET_KEY": secrets.token_hex(32), "GO_ENT_TRUST_PROJECT": "1"}
    try:
        subprocess.run([*GO_ENT, "fleet", "init"], cwd=checkout(root, "first"), check=True)
        print(f"starting {WORKERS} workers, each in a folder of its own")
        for number in range(WORKERS):
            worker, name = start(root, f"machine-{number + 1}")
            workers[name] = worker
        asyncio.run(run(root, workers))
        subprocess.run([*GO_ENT, "fleet", "status"], cwd=root / "client", check=True)
    finally:
        for worker in workers.values():
            worker.kill()
            worker.wait()
        server.stop("immediate")
        shutil.rmtree(server.folder, ignore_errors=True)
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
