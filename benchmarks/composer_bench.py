"""The composer's figures: finding tools, what that costs in tokens, and tools in a pipeline."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.codemode.talk import definitions
from benchmarks.measure import Row, by_turns, in_turns
from benchmarks.report import Report, command
from go_ent.composer import Catalogue, Grants, ToolSpec
from go_ent.composer.catalogue.catalogue import show
from go_ent.composer.catalogue.spec import CallContext
from go_ent.engine.tokens import count

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
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": 100,
                "default": 20,
                "description": "How many results to return",
            },
            "state": {
                "type": "string",
                "enum": ["open", "closed", "all"],
                "description": f"Only {noun}s in this state",
            },
            "fields": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Which fields to include in the answer",
            },
        }
        chosen = dict(chance.sample(sorted(properties.items()), 3))
        item = {
            "type": "object",
            "properties": {"id": {"type": "string"}, "title": {"type": "string"}, "state": {"type": "string"}},
        }
        text = f"{verb.title()} {noun}s in {self.namespace}. Use this when somebody asks to {verb} a {noun}, and you know its id or state."
        schema = {"type": "object", "properties": chosen, "required": sorted(chosen)[:1]}
        return ToolSpec(
            f"{self.namespace}.{verb}_{noun}", text, schema, {"type": "array", "items": item}, origin=self.origin
        )

    async def tools(self) -> list[ToolSpec]:
        return self._specs

    async def call(self, name: str, arguments: dict[str, Any], context: CallContext) -> Any:
        return []

    async def close(self) -> None:
        pass


async def finding(times: int) -> list[Row]:
    chance = random.Random(1)
    grants = Grants(["*"])
    catalogues = [Catalogue([Many(server, size, chance) for server in SERVERS]) for size in (10, 100)]
    for catalogue in catalogues:
        await catalogue.search("warm up", grants)
    few, many = catalogues
    specs = await many.tools(grants)
    assert len(specs) == 1000

    async def search(catalogue: Catalogue) -> float:
        words = f"{chance.choice(VERBS)} {chance.choice(NOUNS)} {chance.choice(SERVERS)}"
        started = time.perf_counter()
        await catalogue.search(words, grants)
        return (time.perf_counter() - started) * 1e3

    base, found = await in_turns(times, lambda: search(few), lambda: search(many))
    everything = count(definitions(specs))
    talk = await conversation(many, grants)
    return [
        Row.of(
            "a search among 1,000 tools",
            "",
            found,
            "ms",
            base,
            must=10,
            bound_on="value",
            baseline_name="among 100",
            note=f"slowest {max(found):.2f} ms",
        ),
        Row(
            "definitions, a search, stubs, code, result",
            "",
            talk,
            "tokens",
            everything,
            0.02,
            baseline_name="1,000 definitions",
        ),
    ]


async def conversation(catalogue: Catalogue, grants: Grants) -> int:
    """The tokens of a typical talk: all of the server's definitions, a search, the stubs of two tools, code, its result."""
    from fastmcp import Client

    from go_ent.composer import Composer
    from go_ent.engine import Engine
    from go_ent.engine.server import make_server

    with tempfile.TemporaryDirectory() as folder:
        composer = Composer(Path(folder))
        async with Engine(Path(folder), composer=composer) as engine, Client(make_server(composer, engine)) as client:
            listed = await client.list_tools()
        told = definitions(listed)
        await composer.close()
    found = await catalogue.search("open issues", grants, limit=5)
    code = "issues = await tools.github.list_issue(limit=50)\nawait tools.slack.create_message(message_id=str(len(issues)))\nlen(issues)"
    sent = [
        told,
        json.dumps({"words": "open issues", "limit": 5}),
        show(found, "brief"),
        json.dumps({"names": [spec.name for spec in found[:2]]}),
        show(found[:2], "stubs"),
        json.dumps({"code": code}),
        json.dumps({"status": "completed", "result": 17, "usage": {"wall_ms": 8.1, "tool_calls": 2}}),
    ]
    return sum(count(text) for text in sent)


def pipeline(lines: int) -> Row:
    """`--each` over many lines, as a shell runs it; start-up is measured apart and taken off."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        (project / ".go-ent").mkdir()
        (project / "echo.py").write_text(ECHO)
        environment = {**os.environ, "GO_ENT_DATA": str(project / "user")}
        tool = [sys.executable, "-c", "from go_ent.engine.cli import main; main()", "tool"]
        subprocess.run([*tool, "add", "echo.py"], cwd=project, env=environment, check=True, capture_output=True)

        def timed(count_: int) -> float:
            data = "".join(f"{number}\n" for number in range(count_))
            started = time.perf_counter()
            arguments = [*tool, "run", "echo", "--each"]
            done = subprocess.run(
                arguments, cwd=project, env=environment, check=True, capture_output=True, input=data, text=True
            )
            assert done.stdout == data
            return time.perf_counter() - started

        start_up = min(timed(1) for _ in range(3))
        rates, base = by_turns(3, lambda: lines / max(timed(lines + 1) - start_up, 1e-3), subprocesses)
    note = f"{lines} lines, {', '.join(f'{rate:.0f}' for rate in rates)}; start-up {start_up:.2f} s"
    name = "`tool run --each`, a fresh guest each line"
    return Row.of(name, "", rates, "/s", base, must=300, better="higher", bound_on="value", note=note)


def subprocesses() -> float:
    """`python -I -c "print(1)"` a second, on all cores, in the same minute."""
    started = time.perf_counter()
    for _ in range(20):
        running = [
            subprocess.Popen([sys.executable, "-I", "-c", "print(1)"], stdout=subprocess.DEVNULL)
            for _ in range(os.cpu_count() or 1)
        ]
        for process in running:
            process.wait()
    return 20 * (os.cpu_count() or 1) / (time.perf_counter() - started)


INTRO = """\
What it takes to find a tool among a thousand, what a typical talk with the server costs in tokens beside showing a model all
definitions, and how many runs a second a pipeline makes. Made by `make bench`."""


def measure(quick: bool) -> Report:
    rows = [*asyncio.run(finding(200)), pipeline(500 if quick else 3000)]
    return Report("composer", "The composer", INTRO, rows, quick)


if __name__ == "__main__":
    command(measure, __doc__)
