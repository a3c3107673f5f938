"""OpenTelemetry spans: execution, run, tool call, upstream, each inside the other. An SDK is for a whole process:
each has its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from fastmcp import FastMCP
from go_ent.composer import Composer
from go_ent.composer.config import Config
from go_ent.composer.sources.mcp import McpSource
from go_ent.engine import Engine, GuestOrder, parse_plan
from pathlib import Path

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

server = FastMCP("up")

@server.tool
def add(a: int, b: int) -> int:
    if a < 0:
        raise ValueError("hush-4711")
    return a + b

def plain(text: str) -> str:
    with trace.get_tracer("mine").start_as_current_span("mine"):
        return text.upper()

TOOL = '''# /// tool
# name = "twice"
# requires = ["up.add"]
# ///
async def twice(n: int) -> int:
    "Twice."
    return await tools.up.add(a=n, b=n)
'''

async def main():
    project = Path(sys.argv[1])
    source = McpSource.from_server("up", server)
    composer = Composer(project, config=Config(allow=("up.*", "plain")), sources=[source], tools=[plain], workers=1)
    async with composer, Engine(project, composer=composer) as engine:
        await composer.compose(TOOL)
        exporter.clear()
        code = "await tools.twice(n=secret), await tools.plain(text='hush-4711')"
        run = await engine.guests.run(GuestOrder(code=code, inputs={"secret": 4}))
        assert run.result == [8, "HUSH-4711"], run
        await engine.guests.run(GuestOrder(code="await tools.up.add(a=-1, b=2)"))
        await engine.execute(parse_plan({"task": [{"id": "one", "code": "1 + 1"}]}))

asyncio.run(main())
spans = exporter.get_finished_spans()
names = {span.context.span_id: span for span in spans}
def path(span):
    up = [] if span.parent is None else path(names[span.parent.span_id])
    tool = span.attributes.get("go_ent.tool")
    return [*up, span.name + (f" {tool}" if tool else "")]
def told(one):
    return {"path": path(one), "status": one.status.status_code.name, "said": one.status.description, "attributes": dict(one.attributes)}
print(json.dumps([told(one) for one in spans], default=str))
"""  # noqa: E501


def test_spans_nest_and_tell_no_arguments_results_or_messages(tmp_path: Path) -> None:
    (tmp_path / ".go-ent").mkdir()
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    spans = json.loads(done.stdout)
    ours = [
        span
        for span in spans
        if span["path"][-1].split()[0] in {"execution", "run", "step", "tool", "upstream", "mine"}
    ]
    paths = [" > ".join(span["path"]) for span in ours]
    assert "execution > run > tool twice > run > tool up.add > upstream up.add" in paths
    assert "execution > run > tool plain > mine" in paths
    assert "execution > step > run" in paths
    failed = {" > ".join(span["path"]): span["said"] for span in ours if span["status"] == "ERROR"}
    assert failed == {
        "execution > run > tool up.add > upstream up.add": "CallError",
        "execution > run > tool up.add": "CallError",
        "execution > run": "error",
    }
    whole = next(span for span in ours if span["path"] == ["execution"])
    assert whole["attributes"]["go_ent.status"] == "completed"
    assert len(whole["attributes"]["go_ent.execution_id"]) == 36
    assert "hush-4711" not in json.dumps(ours)


def test_without_an_sdk_nothing_of_it_is_imported() -> None:
    code = (
        "import sys\nfrom go_ent.sandbox import Sandbox\nwith Sandbox() as box: box.run_sync('1')\n"
        "print('opentelemetry' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr
