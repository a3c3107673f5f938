"""The composer's figures: finding tools, what that costs in tokens, and tools in a pipeline."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from composer import Catalogue, Grants, ToolSpec
from composer.catalogue import show
from composer.spec import CallContext
from engine.tokens import count

VERBS = "get list search create update delete find export import archive merge assign close open sync publish validate rename".split()
NOUNS = "issue user invoice message file report project task ticket order customer event page comment branch release build secret".split()
SERVERS = "github jira slack crm billing drive calendar ci wiki mail".split()
ECHO = '''# /// tool
# name = "echo"
# ///
def echo(n: int) -> int:
    """The number."""
    return n
'''


class Many:
    """A source of many tools with realistic definitions."""

    local = False

    def __init__(self, namespace: str, size: int, chance: random.Random) -> None:
        self.namespace = namespace
        self.origin = f"MCP server {namespace}"
        pairs = [(verb, noun) for noun in NOUNS for verb in VERBS][:size]
        self._specs = [self._spec(verb, noun, chance) for verb, noun in pairs]

    def _spec(self, verb: str, noun: str, chance: random.Random) -> ToolSpec:
        properties: dict[str, Any] = {
            f"{noun}_id": {"type": "string", "description": f"The id of the {noun} to {verb}"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20, "description": "How many results to return"},
            "state": {"type": "string", "enum": ["open", "closed", "all"], "description": f"Only {noun}s in this state"},
            "fields": {"type": "array", "items": {"type": "string"}, "description": "Which fields to include in the answer"},
        }
        chosen = dict(chance.sample(sorted(properties.items()), 3))
        item = {"type": "object", "properties": {"id": {"type": "string"}, "title": {"type": "string"}, "state": {"type": "string"}}}
        text = f"{verb.title()} {noun}s in {self.namespace}. Use this when somebody asks to {verb} a {noun}, and you know its id or state."
        schema = {"type": "object", "properties": chosen, "required": sorted(chosen)[:1]}
        return ToolSpec(f"{self.namespace}.{verb}_{noun}", text, schema, {"type": "array", "items": item}, origin=self.origin)

    async def tools(self) -> list[ToolSpec]:
        return self._specs

    async def call(self, name: str, arguments: dict[str, Any], context: CallContext) -> Any:
        return []

    async def close(self) -> None:
        pass


def row(what: str, measured: str, bound: str, met: bool) -> str:
    return f"| {what} | {measured} | {bound} | {'ok' if met else 'MISSED'} |"


async def finding() -> list[str]:
    chance = random.Random(1)
    catalogue = Catalogue([Many(server, 100, chance) for server in SERVERS])
    grants = Grants(["*"])
    started = time.perf_counter()
    specs = await catalogue.tools(grants)
    assert len(specs) == 1000
    await catalogue.search("warm up", grants)
    made = time.perf_counter() - started
    times = []
    for _ in range(200):
        words = f"{chance.choice(VERBS)} {chance.choice(NOUNS)} {chance.choice(SERVERS)}"
        started = time.perf_counter()
        await catalogue.search(words, grants)
        times.append((time.perf_counter() - started) * 1e3)
    p50, worst = statistics.median(times), max(times)
    everything = sum(
        count(json.dumps({"name": s.name, "description": s.description, "inputSchema": s.input_schema, "outputSchema": s.output_schema}))
        for s in specs
    )
    talk = await conversation(catalogue, grants)
    share = talk / everything
    return [
        row(
            "1,000 tools: a search, p50 of 200",
            f"{p50:.2f} ms (slowest {worst:.2f}; index made in {made * 1e3:.0f} ms)",
            "≤ 10 ms",
            worst <= 10,
        ),
        row("search, stubs, code, result: tokens", f"{talk} of {everything} ({share:.2%})", "≤ 2 % of all definitions", share <= 0.02),
    ]


async def conversation(catalogue: Catalogue, grants: Grants) -> int:
    """The tokens of a typical talk: all of the server's definitions, a search, the stubs of two tools, code, its result."""
    from fastmcp import Client

    from composer import Composer
    from engine import Engine
    from engine.server import make_server

    with tempfile.TemporaryDirectory() as folder:
        composer = Composer(Path(folder))
        async with Engine(Path(folder), composer=composer) as engine, Client(make_server(composer, engine)) as client:
            listed = await client.list_tools()
        definitions = [t.model_dump_json(by_alias=True, exclude_none=True) for t in listed]
        await composer.close()
    found = await catalogue.search("open issues", grants, limit=5)
    code = "issues = await tools.github.list_issue(limit=50)\nawait tools.slack.create_message(message_id=str(len(issues)))\nlen(issues)"
    sent = [
        *definitions,
        json.dumps({"words": "open issues", "limit": 5}),
        show(found, "brief"),
        json.dumps({"names": [spec.name for spec in found[:2]]}),
        show(found[:2], "stubs"),
        json.dumps({"code": code}),
        json.dumps({"status": "completed", "result": 17, "usage": {"wall_ms": 8.1, "tool_calls": 2}}),
    ]
    return sum(count(text) for text in sent)


def pipeline(lines: int) -> list[str]:
    """`--each` over many lines, as a shell runs it; start-up is measured apart and taken off."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        (project / ".go-ent").mkdir()
        (project / "echo.py").write_text(ECHO)
        environment = {**os.environ, "GO_ENT_DATA": str(project / "user")}
        command = [sys.executable, "-c", "from engine.cli import main; main()", "tool"]
        subprocess.run([*command, "add", "echo.py"], cwd=project, env=environment, check=True, capture_output=True)

        def timed(count_: int) -> float:
            data = "".join(f"{number}\n" for number in range(count_))
            started = time.perf_counter()
            arguments = [*command, "run", "echo", "--each"]
            done = subprocess.run(arguments, cwd=project, env=environment, check=True, capture_output=True, input=data, text=True)
            assert done.stdout == data
            return time.perf_counter() - started

        start_up = min(timed(1) for _ in range(3))
        rates = [lines / (timed(lines + 1) - start_up) for _ in range(3)]
    baseline = subprocesses()
    best = statistics.median(rates)
    text = f"{best:.0f} /s ({best / baseline:.1f} × subprocesses; {', '.join(f'{rate:.0f}' for rate in rates)}; start-up {start_up:.2f} s)"
    return [row(f"`tool run --each` over {lines} lines, a fresh guest each", text, "≥ 300 /s", best >= 300)]


def subprocesses() -> float:
    """`python -I -c "print(1)"` a second, on all cores, in the same minute."""
    started = time.perf_counter()
    for _ in range(20):
        running = [
            subprocess.Popen([sys.executable, "-I", "-c", "print(1)"], stdout=subprocess.DEVNULL) for _ in range(os.cpu_count() or 1)
        ]
        for process in running:
            process.wait()
    return 20 * (os.cpu_count() or 1) / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    rows = asyncio.run(finding()) + pipeline(500 if options.quick else 3000)
    table = "\n".join(["| what | measured | bound | |", "|---|---|---|---|", *rows])
    version = ".".join(map(str, sys.version_info[:3]))
    text = f"{table}\n\n{os.cpu_count()} cores, Python {version}\n"
    print(text)
    if options.save:
        (Path(__file__).parents[1] / "docs" / "benchmarks" / "composer.md").write_text(f"# The composer's figures\n\n{text}")


if __name__ == "__main__":
    main()
