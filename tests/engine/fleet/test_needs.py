"""Work that needs environment variables goes to who has them, and what changes a working tree stays with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("dbos", reason="the fleet's tests need its packages: make test-fleet installs them")

from go_ent.composer import Composer
from go_ent.engine.fleet.database import Address, Database
from go_ent.engine.fleet.queue import NeedingQueues
from go_ent.engine.fleet.sending import why_waiting
from go_ent.engine.guest_runs.needs import configured_names, needed_names
from go_ent.sandbox import Sandbox
from tests.composer.conftest import tool

CONFIG = """
[servers.shop]
url = "https://shop.example/mcp"
token = "${env:SHOP_TOKEN}"
[servers.wiki]
command = "wiki"
env = { KEY = "${env:WIKI_KEY}", MODE = "${env:WIKI_MODE:-plain}" }
"""
REPORT = tool("report", 'async def report() -> int:\n    """Asks."""\n    return await tools.shop.orders()\n')
OUTER = tool("outer", 'async def outer() -> int:\n    """Asks."""\n    return await tools.report()\n')


@pytest.fixture
def database(fleet: Address) -> Iterator[Database]:
    opened = Database(fleet)
    yield opened
    opened.close()


async def test_code_needs_what_the_servers_it_names_refer_to(tmp_path: Path, shared_box: Sandbox) -> None:
    (tmp_path / ".go-ent" / "composed-tools").mkdir(parents=True)
    (tmp_path / ".go-ent" / "config.toml").write_text(CONFIG)
    for name, source in (("report", REPORT), ("outer", OUTER)):
        (tmp_path / ".go-ent" / "composed-tools" / f"{name}.py").write_text(source)
    async with Composer(tmp_path, box=shared_box, trusted=True) as composer:
        assert configured_names(composer) == {"SHOP_TOKEN", "WIKI_KEY"}  # one has a default
        assert await needed_names(composer, code="1 + 1") == ()
        assert await needed_names(composer, code="await tools.wiki.page(x=1)") == ("WIKI_KEY",)
        assert await needed_names(composer, code="tools.nobody.x\nawait tools . shop.a()") == ("SHOP_TOKEN",)
        assert await needed_names(composer, tool="outer") == ("SHOP_TOKEN",)  # by way of another
        assert await needed_names(composer, tool="nothing") == ()


def test_a_worker_takes_from_queues_whose_names_it_has(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    sender, worker = NeedingQueues(database), NeedingQueues(database)
    both = sender.queue_for("step", None, ["NEED_B", "NEED_A"])
    assert sender.queue_for("step", None, ["NEED_A", "NEED_B"]) == both == "step::NEED_A+NEED_B"
    one = sender.queue_for("step", "gpu", ["NEED_A", "no name!"])
    assert worker.for_worker("step", (None,)) == []
    monkeypatch.setenv("NEED_A", "x")
    assert worker.for_worker("step", (None, "gpu")) == [one]
    assert worker.for_worker("execution", (None, "gpu")) == []
    monkeypatch.setenv("NEED_B", "x")
    assert worker.for_worker("step", (None,)) == [both]
    later = sender.queue_for("step", None, ["NEED_A"])
    assert later not in worker.for_worker("step", (None,))  # it looks seldom, and when it is told of work
    worker.look_again()
    assert later in worker.for_worker("step", (None,))


def test_status_says_what_is_missing() -> None:
    worker = {"state": "alive", "labels": ["gpu"], "host": "one", "names": ["A"], "version": "1"}
    needs: dict[str, tuple[str | None, tuple[str, ...]]] = {"q": (None, ("A", "B")), "r": ("tpu", ("A",))}
    assert why_waiting(("q", "1"), [worker], needs) == "no worker has the environment variables A, B"
    assert why_waiting(("r", "1"), [worker], needs) == "no worker has the label tpu"
    assert why_waiting(("step:one", "1"), [worker], needs) == "all workers are busy"  # a machine's name is a label
    assert why_waiting(("step", "2"), [worker], needs) == "no worker has go-ent 2"
