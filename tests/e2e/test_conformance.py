"""The conformance suite of MCP against our server: all passes, but what docs/reference/conformance.md says does not
apply.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from fastmcp import Client
from mcp_types import ServerCapabilities

from tests.e2e.programs import Programs, wanted
from tests.e2e.serving import GO_ENT, WITH_FIXTURES, Project
from tests.support import ROOT

pytestmark = pytest.mark.real

PAGE = ROOT / "docs" / "reference" / "conformance.md"
ROW = re.compile(r"^\| `([a-z0-9-]+)` \| (passes|-) \| (passes|-) \| (.*) \|$", re.M)
SERVED = (*GO_ENT, "serve", "--http", "127.0.0.1:0")


def listed() -> dict[str, tuple[bool, bool, str]]:
    """What the page says of each scenario: whether it passes on our server, whether with the fixtures, and why not."""
    return {
        name: (alone == "passes", fixed == "passes", why) for name, alone, fixed, why in ROW.findall(PAGE.read_text())
    }


def test_the_page_is_about_this_version_and_gives_a_reason_for_each_that_does_not_apply() -> None:
    assert f"`@modelcontextprotocol/conformance` {wanted()['@modelcontextprotocol/conformance']}" in PAGE.read_text()
    assert len(listed()) >= 30
    for name, (alone, fixed, why) in listed().items():
        assert (alone and fixed) is (not why.strip()), name


async def capabilities(address: str) -> ServerCapabilities:
    """What the server says that it offers."""
    async with Client(address, mode="legacy") as client:
        assert client.initialize_result is not None
        offered: ServerCapabilities = client.initialize_result.capabilities
        return offered


@pytest.mark.parametrize(("command", "column"), [(SERVED, 0), (WITH_FIXTURES, 1)], ids=["served", "with-fixtures"])
def test_every_scenario_ends_as_the_page_says(
    command: Sequence[str], column: int, programs: Programs, tmp_path: Path
) -> None:
    project = Project.make(tmp_path)
    found = tmp_path / "found"
    with project.over_http(command) as address:
        offered = asyncio.run(capabilities(address))
        argv = [
            str(programs.node),
            str(programs.conformance),
            "server",
            "--url",
            address,
            "--suite",
            "active",
            "-o",
            str(found),
        ]
        done = subprocess.run(argv, env=project.environment, capture_output=True, text=True, timeout=300, check=False)
    assert offered.completions is None
    assert offered.resources is None or not offered.resources.subscribe
    passed = {}
    for folder in found.iterdir():
        name = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\dZ-]*$", "", folder.name)
        checks = json.loads((folder / "checks.json").read_text())
        passed[name] = all(check["status"] != "FAILURE" for check in checks) and any(
            check["status"] == "SUCCESS" for check in checks
        )
    assert passed, done.stdout + done.stderr
    assert passed == {name: (alone, fixed)[column] for name, (alone, fixed, _) in listed().items()}
