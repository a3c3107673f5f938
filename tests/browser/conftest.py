"""A real project with real runs, its console as a process of its own, and a real Chromium that looks at it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from go_ent.engine import BlockingEngine, GuestOrder
from go_ent.engine.strategies.plan import read_plan
from tests.support.consoles import end_console, start_console

WHERE = "there is no Chromium here: apt-get install chromium, or put one on the PATH"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOSTILE = "<img src=x onerror=window.pwned=1><script>window.pwned=1</script>"
DROP = '''# /// tool
# name = "drop"
# ///
def drop(table: str) -> str:
    """Drop a table."""
    return f"dropped {table}"
'''
SHOP = """
import json, os, sys, time
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [{"name": "pay", "description": "Pay a bill.", "inputSchema": TEXT}]
INFO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
print("the till is low", file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        result = INFO
    elif message["method"] == "tools/list":
        result = {"tools": TOOLS}
    elif message["method"] == "tools/call":
        text = message["params"]["arguments"]["text"]
        with open("paid", "a") as file:
            print(text, file=file)
        while os.path.exists("hold"):
            time.sleep(0.02)
        result = {"content": [{"type": "text", "text": "paid " + text}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
PLAN = """
[[task]]
id = "rows"
code = "[{'n': n, 'square': n * n} for n in range(20)]"

[[task]]
id = "words"
tool = "count_words"
inputs = { text = "to be or not to be" }

[[task]]
id = "sum"
code = "sum(row['square'] for row in rows)"
inputs = { rows = "${rows.output}" }

[[task]]
id = "fails"
code = "1 / 0"
depends_on = ["words"]
"""


@dataclass
class Site:
    """A console that runs, and the project it is of."""

    project: Path
    address: str  # opens one session, once
    origin: str
    process: subprocess.Popen[str]
    errors: list[str] = field(default_factory=list)  # what pages complained of in the browser's console
    strangers: list[str] = field(default_factory=list)  # requests to anywhere else

    def go_ent(self, *arguments: str, check: bool = True) -> str:
        """A command in the project."""
        return command(self.project, *arguments, check=check)

    def rows(self, **wanted: str) -> list[dict[str, Any]]:
        """The runs there are, the newest first."""
        rows: list[dict[str, Any]] = json.loads(self.go_ent("ps", "--json"))
        return [row for row in rows if all(row[name] == value for name, value in wanted.items())]

    def newest(self, **wanted: str) -> str:
        """The id of the newest run of a kind."""
        return str(self.rows(**wanted)[0]["id"])

    def watch(self, page: Any) -> Any:
        """Note what a page complains of, and what it asks of others."""
        page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", self._dialog)
        page.on(
            "request",
            lambda request: (
                None if request.url.startswith((self.origin, "data:")) else self.strangers.append(request.url)
            ),
        )
        return page

    def _dialog(self, dialog: Any) -> None:
        self.errors.append(f"dialog: {dialog.message}")
        dialog.dismiss()


def command(project: Path, *arguments: str, check: bool = True) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "go_ent", *arguments],
        cwd=project,
        text=True,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which something of everything has happened."""
    folder = tmp_path_factory.mktemp("browser") / "shop"
    folder.mkdir()
    command(folder, "init")
    command(folder, "trust", "--yes")  # plans of a folder that nobody has trusted are not opened
    (folder / "drop.py").write_text(DROP)
    command(folder, "tool", "add", "drop.py")
    command(folder, "grant", "drop", "--approve")
    (folder / "shop.py").write_text(SHOP)
    command(folder, "server", "add", "till", "--grant", "pay", "--", sys.executable, "shop.py")
    (folder / "plan.toml").write_text(PLAN)
    with BlockingEngine(folder) as engine:
        engine.execute(read_plan(folder / "plan.toml"))
        for code in (
            "print('hello')\n[{'name': 'a', 'n': 1}, {'name': 'b', 'n': 2}]",
            "'# Title\\n\\n- one\\n- two\\n'",
            "x = 1\nx / 0",
            f"print({HOSTILE!r})\n{{{HOSTILE!r}: [{HOSTILE!r}]}}  # {HOSTILE}",
            f"raise ValueError({HOSTILE!r})",
        ):
            engine.run(GuestOrder(code=code))
        engine.run(GuestOrder(tool="count_words", inputs={"text": HOSTILE}))
    return folder


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    found = next((program for name in PROGRAMS if (program := shutil.which(name))), None)
    if found is None:
        pytest.skip(WHERE)
    playwright = pytest.importorskip("playwright.sync_api", reason="there is no Chromium driver: make test-browser")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=found,
            args=["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP evil.test 127.0.0.1"],
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def site(project: Path) -> Iterator[Site]:
    process, address = start_console(project, NO_COLOR="1")
    yield Site(project, address, address.partition("/console")[0], process)
    end_console(process)


@pytest.fixture(scope="session")
def signed_in(site: Site, chromium: Any) -> Any:
    """The cookies of a session that was opened by the printed address, as a person does."""
    context = chromium.new_context()
    page = context.new_page()
    page.goto(site.address)
    assert "token=" not in page.url
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def page(site: Site, chromium: Any, signed_in: Any) -> Iterator[Any]:
    """A page of somebody who is signed in; afterwards nothing was complained of, and nobody else was asked."""
    context = chromium.new_context(storage_state=signed_in, viewport={"width": 1440, "height": 900})
    context.grant_permissions(["clipboard-write"])
    made = site.watch(context.new_page())
    yield made
    pwned = made.evaluate("window.pwned")
    context.close()
    errors, site.errors = site.errors, []
    strangers, site.strangers = site.strangers, []
    assert (errors, strangers, pwned) == ([], [], None)
