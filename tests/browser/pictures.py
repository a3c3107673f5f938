"""The pictures of the guide, made anew: `python -m tests.browser.pictures`; look at them before they are committed."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from go_ent.engine import BlockingEngine, GuestOrder, Task
from go_ent.engine.strategies.plan import read_plan
from tests.browser.conftest import DROP, PROGRAMS, SHOP, command
from tests.support.agents import stand_in_config
from tests.support.consoles import end_console, start_console

PICTURES = Path(__file__).parents[2] / "docs" / "guides" / "console"
PLAN = """
[[task]]
id = "orders"
code = "[{'customer': name, 'total': 10 * n} for n, name in enumerate(['ann', 'bob', 'cy', 'di'], 1)]"

[[task]]
id = "reviews"
tool = "count_words"
inputs = { text = "good good fair good poor" }

[[task]]
id = "revenue"
code = "sum(row['total'] for row in orders)"
inputs = { orders = "${orders.output}" }

[[task]]
id = "best"
code = "max(orders, key=lambda row: row['total'])['customer']"
inputs = { orders = "${orders.output}" }

[[task]]
id = "report"
code = "f'{best} of {revenue}: {words[0][\\"word\\"]}'"
inputs = { best = "${best.output}", revenue = "${revenue.output}", words = "${reviews.output}" }
"""
LIMITS = "[budget]\nday = { usd = 0.2 }\nmonth = { usd = 2 }\n"
TASKS = (
    ("architect", "Design a page for returns"),
    ("developer", "Write the page for returns"),
    ("developer", "Send a mail when a return has come"),
    ("reviewer", "Review the page for returns"),
    ("developer", "Show the returns of a customer"),
)
RUN = """rows = []
for name in ("good", "fair", "poor"):
    words = await tools.count_words(text=f"{name} " * 3 + "and more")
    rows.append({"review": name, "words": len(words), "most": words[0]["word"]})
print(f"{len(rows)} reviews")
rows"""
FAILED = """totals = {"ann": 10, "bob": 20}
words = await tools.count_words(text="ann bob cy")
sum(totals[row["word"]] for row in words)"""


def main() -> None:
    from playwright.sync_api import sync_playwright

    program = next(found for name in PROGRAMS if (found := shutil.which(name)))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        project = Path(folder) / "shop"
        graph, ran, failed = _project(project)
        console, address = start_console(project)
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
        page.goto(address)
        base = address.partition("/console")[0]
        for name, path in {
            "runs": "runs",
            "run": f"runs/{ran}",
            "run-failed": f"runs/{failed}",
            "plan": f"plans/run/{graph}?critical=yes&task=report",
            "approvals": "approvals",
            "tools": "tools?by=calls",
            "tool": "tools/composed/count_words",
            "playground": "playground",
            "budget": "budget?by=role",
            "health": "health",
        }.items():
            page.emulate_media(color_scheme="dark" if name == "playground" else "light")
            page.goto(f"{base}/console/{path}")
            if name == "playground":
                page.fill("textarea[name=code]", RUN)
                page.keyboard.press("Control+Enter")
                page.locator("#came-to .status.completed").wait_for(timeout=60_000)
            page.wait_for_selector(".live:not([data-state=wait])", state="attached")
            page.screenshot(path=PICTURES / f"{name}.png")
        browser.close()
        end_console(console)


def _project(folder: Path) -> tuple[str, str, str]:
    """A shop in which something was run: the ids of a plan's run, of a run, and of one that failed."""
    folder.mkdir()
    command(folder, "init")
    config = folder / ".go-ent" / "config.toml"
    config.write_text(f"{config.read_text()}\n{LIMITS}\n{stand_in_config('edit', folder.parent)}")
    command(folder, "trust", "--yes")
    (folder / "drop.py").write_text(DROP)
    command(folder, "tool", "add", "drop.py")
    command(folder, "grant", "drop", "--approve")
    (folder / "till.py").write_text(SHOP)
    command(folder, "server", "add", "till", "--grant", "pay", "--", "python3", "till.py")
    (folder / "report.toml").write_text(PLAN)
    with BlockingEngine(folder) as engine:
        for text in ("to be or not to be", "the rain in spain"):
            engine.run(GuestOrder(tool="count_words", inputs={"text": text}))
        graph = engine.start(read_plan(folder / "report.toml"))
        engine.wait(graph)
        for role, asked in TASKS:
            engine.execute(Task(description=asked, role=role, strategy="single"))
        ran, failed = (engine.run(GuestOrder(code=code)).id for code in (RUN, FAILED))
    command(folder, "exec", "-c", "await tools.drop(table='orders_2019')", check=False)
    return graph, str(ran), str(failed)


if __name__ == "__main__":
    main()
