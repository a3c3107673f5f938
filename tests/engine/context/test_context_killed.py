"""Summaries and processes that die, or want the same at once: nothing is lost, nothing is paid for twice that was
kept.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from go_ent.engine import Engine, ExecutionConflict
from go_ent.engine.context.chain import Chain
from go_ent.engine.storage.attachments import FileAttachments
from tests.engine.context.test_context import JOIN, SUMMARY, Strict, answers, context, do, run
from tests.support import ROOT
from tests.support.executions import FileStore
from tests.support.forked import run_python
from tests.support.scripted import engine_of

DIES = """
import os, signal, sys
from pathlib import Path
from go_ent.engine.storage import attachments
from go_ent.engine.executions.owned import OwnedExecution
from tests.engine.context.test_context import JOIN, Strict, do, run

left = {"originals": 1, "link": 2}.get(sys.argv[2], 0)
write_new, append = attachments.write_new, OwnedExecution.append

def dies(path, data, **named):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    write_new(path, data, **named)

def dies_before_the_record(self, kind, *arguments, **named):
    if kind == "summary" and sys.argv[2] == "record":
        os.kill(os.getpid(), signal.SIGKILL)
    return append(self, kind, *arguments, **named)

attachments.write_new, OwnedExecution.append = dies, dies_before_the_record
run(Path(sys.argv[1]), Strict(), lambda engine: do(engine, *JOIN, concurrency=1))
"""


@pytest.mark.parametrize(
    ("before", "links"),
    [
        pytest.param("originals", 0, marks=pytest.mark.more),
        pytest.param("link", 0, marks=pytest.mark.more),
        ("record", 1),
    ],
)
def test_killed_while_a_summary_is_kept_it_goes_on_with_what_is_whole(project: Path, before: str, links: int) -> None:
    died = run_python(DIES, str(project), before, cwd=ROOT)
    assert died.returncode == -signal.SIGKILL
    (row,) = FileStore(project).rows()
    folder = FileStore(project).folder / row.id
    assert len(Chain(FileAttachments(folder / "context")).links()) == links
    runner = Strict()

    async def work(engine: Engine) -> None:
        result = await engine.resume(row.id)
        assert (result.status, runner.refused) == ("COMPLETE", [])
        (link,) = Chain(FileAttachments(folder / "context")).links()
        assert [one.text for one in Chain(FileAttachments(folder / "context")).expand(link.number)]
        assert link.summary in runner.told("c").prompt
        assert SUMMARY in link.summary

    run(project, runner, work)
    assert bool(runner.summarised) == (links == 0)  # one that is whole is not made, and paid for, again


HOLDS = """
import asyncio, sys
from pathlib import Path
from tests.support.executions import FileStore

held = FileStore(Path(sys.argv[1])).hold(sys.argv[2])
print("held", flush=True)
sys.stdin.read()
held.release()
"""


async def test_two_processes_do_not_summarise_the_same_execution_at_once(project: Path) -> None:
    runner = Strict("claude-code", answers(8_000))

    async with engine_of(project, runner, config=context()) as engine:
        done = await do(engine, *JOIN[:2])
        holder = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOLDS, str(project), done.execution_id, cwd=ROOT, stdin=-1, stdout=-1
        )
        assert holder.stdout is not None
        assert await holder.stdout.readline() == b"held\n"
        try:
            with pytest.raises(ExecutionConflict):
                await engine.summarize(done.execution_id)
            assert runner.summarised == []  # nobody is paid for what could not be kept
        finally:
            await holder.communicate(b"")
        assert len(await engine.summarize(done.execution_id)) == 1
