"""Bad input of every kind gets a clear status, the next run works, and the host is as it was."""

from __future__ import annotations

import gc
import threading
import time

import psutil
import pytest

from go_ent.sandbox import Sandbox

HOSTILE: dict[str, tuple[str | bytes, set[str]]] = {
    "not UTF-8": (b"x = '\xff'", {"error"}),
    "lone surrogate": ("x = '\ud800'", {"error"}),
    "NUL": ("x = 1\x00", {"error"}),
    "10 MB": ("x = 1\n" * 1_700_000, {"refused"}),
    "1 MB line": ("x = '" + "a" * 1_000_000 + "'", {"completed"}),
    "100,000 parentheses": ("(" * 100_000 + ")" * 100_000, {"error"}),
    "100,000 brackets": ("[" * 100_000, {"error"}),
    "long sum": ("+".join(["1"] * 100_000), {"error", "completed", "memory_limit"}),
    "deep attributes": ("a" + ".b" * 50_000, {"error", "memory_limit"}),
    "deep if": ("\n".join(" " * n + "if 1:" for n in range(500)) + "\n" + " " * 500 + "pass", {"error"}),
    "many names": ("\n".join(f"a{n}=0" for n in range(100_000)), {"completed", "memory_limit", "cpu_limit"}),
    "a million names": ("globals_ = {f'a{n}': n for n in range(10**6)}\nlen(globals_)", {"completed", "memory_limit"}),
    "catches everything": (
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        {"cpu_limit"},
    ),
    "replaces builtins": (
        "print = len = open = list = dict = str = repr = type = None\nclass object: pass",
        {"completed"},
    ),
    "breaks the library": ("import json, asyncio\njson.dumps = json.loads = None\nasyncio.Task = None", {"completed"}),
    "prints for ever": ("while True: print('x' * 1000)", {"cpu_limit"}),
    "memory in pieces": ("x = []\nwhile True: x.append([])", {"memory_limit", "cpu_limit"}),
    "recursion": ("def f(): f()\nf()", {"error"}),
    "raises BaseException": ("class Odd(BaseException):\n    def __str__(self): raise self\nraise Odd", {"error"}),
    "raises KeyboardInterrupt": ("raise KeyboardInterrupt", {"error"}),
    "raises GeneratorExit": ("raise GeneratorExit", {"error"}),
    "raises StopIteration": ("raise StopIteration", {"error"}),
    "strange exit": ("raise SystemExit(object())", {"error"}),
    "zip bomb": ("import zlib\nlen(zlib.decompress(zlib.compress(bytes(10**7)) ))", {"completed", "memory_limit"}),
    "tool hangs": ("await tools.echo('x', delay=1000)", {"timeout"}),
    "tool blocks": ("await tools.nap(3)", {"timeout"}),
    "tool exits": ("await tools.leave()", {"error"}),
    "tool returns too much": ("await tools.huge(100_000_000)", {"error"}),
    "task left running": (
        "import asyncio\nasyncio.create_task(asyncio.sleep(1000))\nawait asyncio.sleep(0)\n1",
        {"completed"},
    ),
    "finalizer loops": ("class A:\n    def __del__(self):\n        while True: pass\na = A()\ndel a", {"cpu_limit"}),
    "async generator left open": ("async def g():\n    yield 1\nasync for x in g(): break\nx", {"completed"}),
}


ENDLESS = {"catches everything", "prints for ever", "finalizer loops"}
WAITING = {"tool hangs", "tool blocks"}


@pytest.mark.parametrize("name", HOSTILE)
def test_clear_status_and_the_next_run_works(box: Sandbox, name: str) -> None:
    code, statuses = HOSTILE[name]
    limits = {"cpu_s": 0.2} if name in ENDLESS else {"timeout_s": 0.3} if name in WAITING else {"cpu_s": 2.0}
    run = box.run_sync(code, limits=limits)
    assert run.status in statuses, run.error
    assert (run.error is None) == (run.status == "completed")
    assert box.run_sync("6 * 7").result == 42


def footprint() -> tuple[int, int, int]:
    gc.collect()
    here = psutil.Process()
    memory = sum(child.memory_info().rss for child in [here, *here.children(recursive=True)] if child.is_running())
    return memory, threading.active_count(), here.num_fds()


def hammer(box: Sandbox, rounds: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    quick = {
        name: case
        for name, case in HOSTILE.items()
        if name not in ("10 MB", "many names", "long sum", "memory in pieces")
    }

    def once() -> None:
        for name, (code, _) in quick.items():
            if name == "tool blocks":
                continue
            box.run_sync(code, limits={"cpu_s": 0.05, "timeout_s": 0.1, "memory_mb": 64})

    once()
    time.sleep(0.5)
    before = footprint()
    for _ in range(rounds):
        once()
    box.run_sync("1")
    time.sleep(0.5)
    return before, footprint()


@pytest.mark.more
def test_nothing_leaks(box: Sandbox) -> None:
    (memory, threads, fds), (memory_after, threads_after, fds_after) = hammer(box, 2)
    assert threads_after <= threads + 4
    assert fds_after <= fds + 4
    assert memory_after < memory + (80 << 20)


@pytest.mark.long
def test_nothing_leaks_in_500_runs(box: Sandbox) -> None:
    (memory, threads, fds), (memory_after, threads_after, fds_after) = hammer(box, 20)
    assert threads_after <= threads + 4
    assert fds_after <= fds + 4
    assert memory_after < memory * 1.2 + (40 << 20)
