"""What a user waits for: over MCP stdio, at the shell, and from an import; beside FastMCP's CodeMode, which records nothing."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.engine_bench import dispatched
from benchmarks.measure import INSTALLED, Row, by_turns, in_turns, median
from benchmarks.report import Report, command, scratch
from go_ent.composer import Composer
from go_ent.composer.catalogue.grants import Grants
from go_ent.composer.catalogue.spec import Hints
from go_ent.composer.sources.functions import FunctionSource
from go_ent.engine import Engine, GuestOrder
from go_ent.engine.executions.retention import prune
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.storages import open_store
from tests.support import ROOT
from tests.support.packed import fresh, made

TWICE = (
    '# /// tool\n# name = "twice"\n# ///\ndef twice(x: int) -> int:\n    """A number, doubled."""\n    return 2 * x\n'
)
AT_ONCE = 200
GO_ENT = str(Path(sys.executable).with_name("go-ent"))


class Client:
    """The least that a client can be: what it waits for is the server."""

    def __init__(self, *argv: str, cwd: Path | None = None) -> None:
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=cwd, env=INSTALLED
        )
        self._number = 0
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        self.ask("initialize", hello)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, method: str, params: dict[str, Any]) -> int:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    def hear(self) -> dict[str, Any]:
        """The next answer."""
        assert self.process.stdout is not None
        while True:
            message: dict[str, Any] = json.loads(self.process.stdout.readline())
            if "id" in message and "method" not in message:
                assert "error" not in message, message
                assert not message["result"].get("isError"), message
                return message

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        number = self.begin(method, params)
        answer = self.hear()
        assert answer["id"] == number
        return answer

    def call(self, tool: str, **arguments: Any) -> float:
        """Milliseconds until a tool has answered."""
        started = time.perf_counter()
        self.ask("tools/call", {"name": tool, "arguments": arguments})
        return (time.perf_counter() - started) * 1e3

    def many(self, tool: str, **arguments: Any) -> float:
        """Calls a second, when many are made at once."""
        started = time.perf_counter()
        for _ in range(AT_ONCE):
            self.begin("tools/call", {"name": tool, "arguments": arguments})
        for _ in range(AT_ONCE):
            self.hear()
        return AT_ONCE / (time.perf_counter() - started)

    def cpu(self) -> float:
        """Milliseconds of CPU that the server's own process has taken, all its threads together."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e6

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)


@contextmanager
def clients(project: Path) -> Iterator[tuple[Client, Client]]:
    module = [sys.executable, "-m", "benchmarks.end_to_end_server"]
    ours, peer = Client(*module, "ours", str(project)), Client(*module, "peer")
    try:
        yield ours, peer
    finally:
        ours.close()
        peer.close()


def over_stdio(project: Path, times: int) -> list[Row]:
    with clients(project) as (ours, peer):

        def code() -> float:
            return ours.call("code_execute", code="1+1")

        def beside(base: Callable[[], float], action: Callable[[], float] = code) -> tuple[list[float], list[float]]:
            by_turns(times // 5, action, base)
            measured, compared = by_turns(times, action, base)
            return measured, compared

        with_nothing, nothing = beside(lambda: ours.call("noop"))
        with_our_nothing, our_nothing = beside(lambda: ours.call("tool_noop"))
        with_theirs, theirs = beside(lambda: peer.call("execute", code="1+1"))
        composed, with_composed = beside(code, lambda: ours.call("twice", x=1))
        before = ours.cpu()
        for _ in range(times):
            ours.call("code_execute", code="1+1")
        cpu = (ours.cpu() - before) / times
        many: list[Callable[[], float]] = [
            lambda: ours.many("code_execute", code="1+1"),
            lambda: peer.many("execute", code="1+1"),
        ]
        by_turns(1, *many)
        burst, their_burst = by_turns(max(3, times // 60), *many)
    name = "`code_execute` of `1+1` over stdio"
    return [
        Row.of(
            name,
            "",
            with_nothing,
            "ms",
            nothing,
            must=1.5,
            goal=1.25,
            baseline_name="a tool of the same server that does nothing",
            note="that tool goes fastmcp's whole way, which ours don't (decision 51)",
        ),
        Row.of(
            f"{name}, beside a tool called as ours are",
            "",
            with_our_nothing,
            "ms",
            our_nothing,
            baseline_name="a tool that does nothing, called as ours are",
            gated=False,
        ),
        Row("host CPU of one `code_execute`, over stdio", "", cpu, "ms", must=3, goal=2, gated=False),
        Row.of(
            f"{name}, recorded", "", with_theirs, "ms", theirs, must=0.8, goal=0.6, baseline_name="FastMCP CodeMode"
        ),
        Row.of(
            f"{AT_ONCE} of them at once, a second",
            "",
            burst,
            "/s",
            their_burst,
            must=2,
            goal=4,
            better="higher",
            baseline_name="FastMCP CodeMode",
        ),
        Row.of(
            "a composed tool by its name over stdio",
            "",
            composed,
            "ms",
            with_composed,
            must=1.1,
            baseline_name="`code_execute`",
        ),
    ]


async def look(n: int) -> int:
    """Only look."""
    return n


async def from_an_import(project: Path, times: int) -> list[Row]:
    source = FunctionSource([look], "w", hints={"look": Hints(read_only=True)})
    composer = Composer(project, sources=[source], trusted=True)
    composer.grants = composer.code.grants = Grants(["w.*"])
    async with composer, Engine(project, composer=composer, trusted=True) as engine:

        def action(code: str, on_record: bool) -> Callable[[], Awaitable[float]]:
            async def took() -> float:
                started = time.perf_counter()
                run = await (engine.guests.run(GuestOrder(code=code)) if on_record else composer.code.execute(code))
                assert run.ok, run.error
                return (time.perf_counter() - started) * 1e3

            return took

        async def both_ways(*codes: str) -> list[list[float]]:
            actions = [action(code, kept) for code in codes for kept in (False, True)]
            await in_turns(times // 5, *actions)
            return await in_turns(times, *actions)

        few, many = (f"for i in range({size}):\n    await tools.w.look(n=i)" for size in (10, 110))
        bare, kept = await both_ways("1+1")
        bare_few, kept_few, bare_many, kept_many = await both_ways(few, many)
    calls = [(b - a) * 10 for a, b in zip(sorted(kept_few), sorted(kept_many), strict=True)]
    base = [(b - a) * 10 for a, b in zip(sorted(bare_few), sorted(bare_many), strict=True)]
    return [
        Row.of(
            "a recorded `1+1` through the library",
            "",
            kept,
            "ms",
            bare,
            must=1.5,
            goal=1.2,
            baseline_name="not recorded",
        ),
        Row(
            "a tool call in recorded code",
            "",
            median(calls),
            "µs",
            median(base),
            must=1.1,
            baseline_name="not recorded",
            gated=False,
            note="by what 100 calls more take",
        ),
    ]


def filled(project: Path, size: int) -> ExecutionStore:
    """A project with so many executions, a tenth of them in folders of their own."""
    store = open_store(project)
    for number in range(size):
        if number % 10:
            made(store, "code: 1+1")
            continue
        held = store.create(fresh("code: 1+1"), sync=False)
        held.place()
        held.move("completed", sync=False)
        held.release()
    store.flush()
    return store


def shell(project: Path, *arguments: str) -> float:
    started = time.perf_counter()
    subprocess.run([GO_ENT, *arguments], cwd=project, check=True, capture_output=True, env=INSTALLED)
    return time.perf_counter() - started


def among_many(folder: Path, size: int, times: int) -> list[Row]:
    project = folder / "many"
    (project / ".go-ent").mkdir(parents=True)
    store = filled(project, size)
    one = store.rows(1)[0].id
    (looked, found) = by_turns(times, lambda: shell(project, "ps"), lambda: shell(project, "status", one))
    started = time.perf_counter()
    removed = len(prune(store, keep=1).removed)
    took = time.perf_counter() - started
    store.close()
    shutil.rmtree(project)
    assert removed == size - 1
    how = {"must": 0.5, "bound_on": "value", "gated": False}
    return [
        Row(f"`go-ent ps` among {size:,} executions", "", median(looked), "s", **how),  # type: ignore[arg-type]
        Row(f"`go-ent status ID` among {size:,}", "", median(found), "s", **how),  # type: ignore[arg-type]
        Row(f"prune {removed:,} executions", "", took, "s", must=5, gated=False),
    ]


def first_call(project: Path) -> float:
    """Seconds from the start of a server to its first answered call."""
    started = time.perf_counter()
    client = Client(GO_ENT, "serve", cwd=project)
    client.call("code_execute", code="1+1")
    took = time.perf_counter() - started
    client.close()
    return took


def starting(project: Path, times: int) -> list[Row]:
    actions = [
        lambda: first_call(project),
        lambda: shell(project, "exec", "-c", "1"),
        lambda: shell(project, "tool", "run", "twice", "--input", '{"x": 1}'),
    ]
    by_turns(1, *actions)
    served, executed, ran = by_turns(times, *actions)
    return [
        Row("a server's start to its first answered call", "", median(served), "s", must=1, goal=0.6, gated=False),
        Row("`go-ent exec -c 1`, in a project", "", median(executed), "s", must=0.3, goal=0.2, gated=False),
        Row("`go-ent tool run`, in a project", "", median(ran), "s", must=0.3, goal=0.2, gated=False),
    ]


def graphs(folder: Path, size: int, times: int) -> list[Row]:
    took = [asyncio.run(dispatched(folder / f"graph{number}", size)) * size for number in range(times)]
    return [Row(f"a graph of {size:,} no-op tasks, all on disk", "", median(took), "s", must=3, goal=1.5, gated=False)]


def hops() -> list[Row]:
    """As docs/architecture.md draws them."""
    drawn = re.search(
        r"That is (\d+) hops and \d+ functions in, (\d+) hops a call", (ROOT / "docs/architecture.md").read_text()
    )
    assert drawn is not None
    return [
        Row("hops of `code_execute`, in", "", int(drawn[1]), "", must=10, gated=False),
        Row("hops of a call in it", "", int(drawn[2]), "", must=12, gated=False),
    ]


INTRO = """\
What a user waits for: over MCP stdio with the least possible client, at the shell, and from an import. What is compared is taken in
turns. FastMCP CodeMode is the nearest peer; it runs a small interpreter and records nothing, ours is on record before it answers."""

AFTER = """\
## Where the time goes

By profiles of CPU time (the server's event loop, imports), taken on a busy machine: read them as shares.

- **`code_execute` beside a tool that does nothing.** Of the event loop's time for a call, our own work is six tenths: the guest's run
  takes half of that (a message to the worker and its answer, the most of it), the record two fifths (state, seal, journal, one
  packed write). mcp and fastmcp take four tenths, a third of it reading and writing. The empty tool goes fastmcp's whole way;
  one that goes ours costs little more than half of it, which makes the same `code_execute` look worse beside it.
- **200 at once.** The host's event loop is one core, and mcp's share of a call is about half a millisecond of it.
- **A recorded `1+1`.** Its record takes about as much of the host's CPU as the run: a seal, five records, the result summed up, and
  one packed write. Half of it is done while the worker runs the guest ([decision 53](../decisions/053-records-are-made-meanwhile.md)),
  so the ratio is worse where other programs want both cores. It is compared with an unrecorded run of the same process in turns of
  two, so that both find caches that the other left.
- **A call in recorded code.** Its two records take 25 to 35 µs of the host's CPU, nearly all of it while the guest goes on. The rest
  of the difference is the guest's, which says what it has heard.
- **A graph on disk.** Six tenths of a task's CPU are the event loop's: of that its way through pool, strategy and dispatcher is seven
  tenths, reading the plan one, pydantic one. The rest is the thread that writes and syncs: one sync for the
  ends of the tasks that ran together and the starts of those that follow, so that no more are synced together than run together.
- **Starts.** `exec` is imports, nine tenths of it, and all of them one thread's: a third are pydantic and the command line's parser,
  which we take as they are; the rest is finding and loading 510 modules and making 66 models. Dataclasses, which were a fifth, compile
  nothing before they are used ([decision 52](../decisions/052-dataclasses-that-wait.md)). The worker is started beside them and is
  ready before they end, so it costs CPU and no time. A server imports 1,250 modules; half of that is mcp and fastmcp, and four tenths of
  these the making of 550 models for two versions of the protocol."""


def measure(quick: bool) -> Report:
    times = 50 if quick else 300
    with scratch(synced=True) as temporary:
        folder = Path(temporary)
        project = folder / "project"
        (project / ".go-ent").mkdir(parents=True)
        (project / "twice.py").write_text(TWICE)
        shell(project, "tool", "add", "twice.py")
        rows = [
            *over_stdio(project, times),
            *asyncio.run(from_an_import(project, times)),
            *graphs(folder, 2_000 if quick else 10_000, 1 if quick else 3),
            *among_many(folder, 1_000 if quick else 10_000, 3 if quick else 7),
            *starting(project, 3 if quick else 9),
            *hops(),
        ]
    return Report("end-to-end", "What a user waits for", INTRO, rows, quick, after=AFTER)


if __name__ == "__main__":
    command(measure, __doc__)
