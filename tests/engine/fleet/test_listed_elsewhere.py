"""A tool that is composed on one machine is listed by the MCP clients of another, which stay connected."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="the fleet's tests need its packages: make test-fleet installs them")

from fastmcp.client.transports import StdioTransport

from go_ent.sandbox.images.cache import cache_path
from tests.engine.fleet.test_remote_lines import client
from tests.engine.server.test_changes import COMMAND, Era, connected, names, tool
from tests.support import ROOT
from tests.support.fleet_machines import Fleet
from tests.support.serving import ERAS

pytestmark = pytest.mark.long


def served(project: Path) -> StdioTransport:
    """`go-ent serve` on a machine of its own, which shares nothing but the database and the images."""
    home = {"HOME": str(project / "home"), "XDG_DATA_HOME": str(project / "home"), "GO_ENT_CACHE": str(cache_path())}
    (project / "home").mkdir()
    variables = {**os.environ, **home, "PYTHONPATH": str(ROOT), "GO_ENT_TRUST_PROJECT": "1"}
    return StdioTransport(COMMAND[0], [*COMMAND[1:], "serve"], cwd=str(project), env=variables, keep_alive=False)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_tool_composed_elsewhere_is_listed_live(
    machines: Fleet, mode: Era, record_property: Callable[[str, object], None]
) -> None:
    async with (
        client(machines.checkout("a")) as here,
        connected(served(machines.checkout("b")), mode) as (there, ear),
    ):
        assert "measure" not in await names(there)
        await here.open_composer().compose(tool("measure"))
        composed = time.monotonic()
        await ear.news()
        told = time.monotonic() - composed
        assert "measure" in await names(there)
        record_property("seconds", round(told, 3))
        print(f"told {told:.3f} s after it was composed ({mode})")
        assert (await there.call_tool("measure", {"q": "abc"})).data == 3
        await here.open_composer().remove("measure")
        await ear.news()
        assert "measure" not in await names(there)
