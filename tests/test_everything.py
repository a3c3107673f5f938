"""One graph with everything in it, at the command line, over several processes: guest code, a composed tool, an
upstream server, agents answered by a stand-in model, summaries, an interrupt, a kill, an approval, and a budget that
holds throughout."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer.composed import toolfile
from go_ent.composer.composed.store import Store
from tests.composer.conftest import tool
from tests.support import ROOT
from tests.support.shell import COMMAND

WINDOW = 6_000
LIMIT_USD = 0.60
MODEL = ROOT / "tests" / "support" / "standins" / "model.py"

SERVER = """
import sys
from fastmcp import FastMCP
from mcp_types import ToolAnnotations

mcp = FastMCP("ledger")

def done(what: str) -> None:
    with open(sys.argv[1], "a") as file:
        file.write(what + "\\n")

@mcp.tool
def note(text: str) -> str:
    done(f"note {text}")
    return text.upper()

@mcp.tool(annotations=ToolAnnotations(destructive_hint=True))
def pay(amount: int) -> str:
    done(f"pay {amount}")
    return f"paid {amount}"

mcp.run(show_banner=False)
"""

TOTALS = '''
def totals(rows: list[dict[str, int]]) -> int:
    """The sum of all amounts."""
    return sum(row["amount"] for row in rows)
'''

PLAN = """
concurrency = 2

[[task]]
id = "load"
code = '''
said = await tools.ledger.note(text="loaded")
[{"number": n, "amount": n % 7, "id": 1000 + n} for n in range(900)]
'''

[[task]]
id = "total"
tool = "totals"
inputs = { rows = "${load.output}" }

[[task]]
id = "draft"
prompt = "DRAFT: say what the rows come to."
depends_on = ["load", "total"]

[[task]]
id = "review"
prompt = "REVIEW: look at the draft."
depends_on = ["draft", "load"]

[[task]]
id = "pay"
code = "await tools.ledger.pay(amount=amount)"
inputs = { amount = "${total.output}" }
depends_on = ["review"]

[[task]]
id = "close"
prompt = "CLOSE: say that all is done."
depends_on = ["review", "pay"]
"""


class Desk:
    """A project's folder, and go-ent in processes of its own."""

    def __init__(self, folder: Path, outside: Path) -> None:
        self.folder, self.outside = folder, outside

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            [*COMMAND, *arguments], cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        process = self.start(*arguments)
        stdout, stderr = process.communicate(timeout=100)
        assert process.returncode == code, stderr.decode()
        return stdout.decode()

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def diary(self, kind: str) -> list[str]:
        path = self.outside / "diary.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line[kind] for line in lines if kind in line]

    def until_came(self, word: str, process: subprocess.Popen[bytes], times: int = 1) -> None:
        """Until the model has been asked."""
        while self.diary("came").count(word) < times:
            assert process.poll() is None, process.communicate()[1].decode()
            time.sleep(0.02)

    def hold(self, word: str) -> None:
        (self.outside / f"hold-{word}").touch()

    def release(self, word: str) -> None:
        (self.outside / f"hold-{word}").unlink()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    folder, outside = tmp_path / "project", tmp_path / "outside"
    (folder / ".go-ent").mkdir(parents=True)
    outside.mkdir()
    (outside / "server.py").write_text(SERVER)
    (folder / "plan.toml").write_text(PLAN)
    (folder / ".go-ent" / "config.toml").write_text(f"""
[grants]
allow = ["ledger.*"]

[servers.ledger]
command = {json.dumps(sys.executable)}
args = {json.dumps([str(outside / "server.py"), str(outside / "effects")])}

[engine]
runtime = "cli"
command = "model"

[commands.model]
argv = {json.dumps([sys.executable, str(MODEL), str(outside), str(WINDOW)])}
stdin = true
format = "json"
path = "text"
tokens_in = "in"
tokens_out = "out"
cost_usd = "usd"
max_cost_usd = 0.10
repeatable = true
model = "stand-in"
env = ["PYTHONPATH"]

[context]
pass_tokens = 1_000
summarizers = ["runner"]

[context.windows]
stand-in = {WINDOW}

[budget]
execution = {{ usd = {LIMIT_USD} }}
reserve_usd = 0.10
""")
    Store(folder / ".go-ent" / "composed-tools", "project").save(toolfile.read(tool("totals", TOTALS)))
    return Desk(folder, outside)


@pytest.mark.more
def test_a_graph_that_is_interrupted_killed_approved_and_resumed_loses_nothing_and_does_nothing_twice(
    desk: Desk,
) -> None:
    desk.run("trust", "--yes")

    # Interrupted from another process, while the model is writing the draft.
    desk.hold("DRAFT")
    first = desk.start("run", "--plan", "plan.toml")
    desk.until_came("DRAFT", first)
    (row,) = desk.json("ps")
    execution = row["id"]
    desk.run("interrupt", execution)
    stderr = first.communicate(timeout=60)[1].decode()
    assert first.returncode == 130, stderr
    assert f"go-ent resume {execution[-8:]}" in stderr
    assert desk.json("status", execution)["status"] == "interrupted"
    desk.release("DRAFT")

    # Killed in another process, while the model is reviewing.
    desk.hold("REVIEW")
    second = desk.start("resume", execution)
    desk.until_came("REVIEW", second)
    second.send_signal(signal.SIGKILL)
    second.communicate(timeout=60)

    # Resumed in a third, which first ends what the second left behind, and then gets as far as what needs a person's
    # word.
    third = desk.start("resume", execution)
    desk.until_came("REVIEW", third, times=2)
    desk.release("REVIEW")
    stderr = third.communicate(timeout=60)[1].decode()
    assert third.returncode == 10, stderr
    assert desk.json("status", execution)["status"] == "paused"
    effects = (desk.outside / "effects").read_text().splitlines()
    assert effects == ["note loaded"]
    total = sum(n % 7 for n in range(900))

    # Approved in a fourth, which goes on to the end.
    assert desk.run("approve", execution, "--resume").startswith("CLOSE of ")

    # Nothing was lost, and nothing was done twice.
    status = desk.json("status", execution)
    assert status["status"] == "completed"
    assert (desk.outside / "effects").read_text().splitlines() == ["note loaded", f"pay {total}"]
    answered = Counter(desk.diary("answered"))
    assert {word: answered[word] for word in ("DRAFT", "REVIEW", "CLOSE")} == {"DRAFT": 1, "REVIEW": 1, "CLOSE": 1}
    assert Counter(desk.diary("came"))["DRAFT"] == 2

    # No prompt was above the window: the rows were summarised, and the chain says how.
    assert desk.diary("rejected") == []
    context = desk.json("context", execution)
    assert context["problems"] == []
    assert {link["by"] for link in context["chain"]} == {"runner"}
    expanded = desk.json("context", execution, "--expand", str(context["chain"][0]["number"]))
    assert '"id":1899' in "".join(message["text"] for message in expanded).replace(" ", "")

    # The budget held: what was spent, and what may have been by the call that was killed, is within the limit.
    paid = 0.02 * len(desk.diary("answered"))
    spent = next(row for row in desk.json("ps") if row["id"] == execution)["spent_usd"]
    assert paid <= spent + 1e-9
    assert spent <= LIMIT_USD
