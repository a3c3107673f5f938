"""A desk for a real program: its own home, its own project, a model of its own, and nothing left running."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from go_ent.engine.core.config import RunnerConfig
from go_ent.engine.core.models import RunRequest, RunResult, Tokens
from go_ent.engine.runners.base.runner import Progress, Runner
from go_ent.engine.runners.claude.runner import ClaudeRunner
from go_ent.engine.runners.opencode.runner import OpenCodeRunner
from go_ent.sandbox.images import cache_folder
from tests.e2e.model_server import Asked, ModelServer, Reply, Text, ToolUse, Usage
from tests.e2e.programs import Programs

T = TypeVar("T")
SECRET = "a-password-of-the-host"
PATIENCE_S = 90.0
USAGE = Usage(input=1000, output=50, cache_read=200)
ONE_CALL = Tokens(input=1000, output=50, cache_read=200)
ONE_COST = (1000 * 3 + 50 * 15 + 200 * 0.3) / 1e6
PROMPT = 'Say "hello", it\'s `easy`:\n$HOME \\n — ünï\n'
COST = {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75}  # dollars per million, for opencode
COMPOSED = '''# /// tool
# name = "twice"
# ///
def twice(x: int) -> int:
    """A number, doubled."""
    return 2 * x
'''


@dataclass
class Desk:
    """Where a program works, and what was heard of it."""

    home: Path
    project: Path
    model: ModelServer
    runner: Runner
    loop: asyncio.Runner
    heard: list[Progress] = field(default_factory=list)

    def request(self, prompt: str, **more: Any) -> RunRequest:
        # What a run leaves behind is found, and ended, by its id: so that is nobody else's.
        given: dict[str, Any] = {
            "execution_id": uuid.uuid4().hex,
            "cwd": str(self.project),
            "timeout_s": 200.0,
            "silence_s": 100.0,
            **more,
        }
        return RunRequest(prompt=prompt, **given)

    def ask(self, prompt: str, **more: Any) -> RunResult:
        """One request to its end."""
        return self.loop.run(self.runner.execute(self.request(prompt, **more), self.heard.append))

    def ask_until(
        self,
        happens: Callable[[], object],
        then: Callable[[asyncio.Task[RunResult], str], Coroutine[Any, Any, T]],
        **more: Any,
    ) -> T:
        """One request during which something happens: *then* gets the run, and its id."""

        async def main() -> T:
            request = self.request("tell", **more)
            run = asyncio.create_task(self.runner.execute(request, self.heard.append))
            await asyncio.sleep(0)  # so that it has begun
            end = time.monotonic() + PATIENCE_S
            try:
                while not happens():
                    assert not run.done(), f"it ended before: {run.result()}"
                    assert time.monotonic() < end, f"it did not happen in {PATIENCE_S} s; heard: {self.heard}"
                    await asyncio.sleep(0.02)
                return await then(run, request.run_id)
            finally:
                run.cancel()
                await asyncio.wait([run])

        return self.loop.run(main())

    async def interrupt(self, run: asyncio.Task[RunResult], run_id: str) -> RunResult:
        assert await self.runner.interrupt(run_id)
        result = await run
        assert not await self.runner.interrupt(run_id)
        return result

    async def cancel(self, run: asyncio.Task[RunResult], run_id: str) -> None:
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    def said(self) -> str:
        return "".join(one.text for one in self.heard if one.kind == "text")

    @property
    def sessions(self) -> list[object]:
        """The sessions that were told of while the run was under way."""
        return [one.data.get("session_id") for one in self.heard if one.kind == "session"]

    def outlived_by_nothing(self, shell: str) -> None:
        """Interrupt, then cancel, a run whose shell is in a command without an end; nothing of either is left."""
        interrupted = self._while_waiting(shell, self.interrupt)
        assert (interrupted.status, interrupted.output) == ("interrupted", "I wait.")
        self._while_waiting(shell, self.cancel)

    def _while_waiting(self, shell: str, end: Callable[[asyncio.Task[RunResult], str], Coroutine[Any, Any, T]]) -> T:
        marker = uuid.uuid4().hex
        self.model.play([waiting(shell, marker)])
        result = self.ask_until(lambda: running(marker) == 2, end)
        assert running(marker) == 0
        return result

    def authors_and_uses_a_tool(self) -> None:
        """The agent is offered our server, composes a tool, and runs it."""
        self.model.play(composing)
        result = self.ask("compose a tool", serve_tools=True)
        assert (result.status, result.output) == ("completed", "COMPOSED")
        composed, listed, ran = (asked.last_text for asked in self.model.asked[1:4])
        # Claude Code hands a model the structured answer, opencode the text.
        assert re.search(r'"version":1|saved as version 1', composed), composed
        assert re.search(r'"name":"twice"|twice \(project', listed), listed
        assert "42" in ran
        assert list((self.project / ".go-ent" / "composed-tools").glob("*.py"))

    def clear(self) -> None:
        """An empty project, and nothing heard."""
        self.heard.clear()
        self.model.play(())
        shutil.rmtree(self.project)
        self.project.mkdir()


@contextmanager
def desk_of(make: Callable[[Path, Path, str], Runner], folder: Path) -> Iterator[Desk]:
    """A desk in *folder*; *make* makes the runner of a home, a project and the model's address."""
    home, project = folder / "home", folder / "project"
    (home / ".cache").mkdir(parents=True)
    # The sandbox's image takes long to build, and is not what is tested here.
    (home / ".cache" / "go-ent").symlink_to(cache_folder())
    project.mkdir()
    with ModelServer() as model, asyncio.Runner() as loop:
        runner = make(home, project, model.url)
        try:
            yield Desk(home, project, model, runner, loop)
        finally:
            loop.run(runner.close())
            left = _left_over(folder)
            for process in left:
                process.kill()
    assert not left, "processes were left over"


def claude(program: Path, **more: str) -> Callable[[Path, Path, str], Runner]:
    def make(home: Path, project: Path, url: str) -> Runner:
        given = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-of-the-test", **more}
        return ClaudeRunner(RunnerConfig(command=(str(program),), set=given), project=project, host_env=_host(home))

    return make


def opencode_config(url: str) -> dict[str, Any]:
    """What tells opencode of the model at *url*."""
    sees = {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
    models = {"main": {"cost": COST, "limit": {"context": 200_000, "output": 8_000}, **sees}, "small": {}}
    options = {"baseURL": f"{url}/v1", "apiKey": "key-of-the-test"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": models}
    return {"model": "stand-in/main", "small_model": "stand-in/small", "provider": {"stand-in": provider}}


def opencode(programs: Programs) -> Callable[[Path, Path, str], Runner]:
    def make(home: Path, project: Path, url: str) -> Runner:
        (home / ".config" / "opencode").mkdir(parents=True)
        (home / ".config" / "opencode" / "opencode.json").write_text(json.dumps(opencode_config(url)))
        # It would fetch a package of its own at each start.
        given = {"npm_config_offline": "true"}
        return OpenCodeRunner(
            RunnerConfig(command=(str(programs.opencode),), set=given), project=project, host_env=_host(home)
        )

    return make


def _host(home: Path) -> dict[str, str]:
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8", "SOME_PASSWORD": SECRET}


def _left_over(folder: Path) -> list[psutil.Process]:
    """The processes that work in this folder, or have it for a home."""
    found = []
    for process in psutil.process_iter():
        try:
            places = (process.environ().get("HOME", ""), process.cwd())
            if process.status() != psutil.STATUS_ZOMBIE and any(Path(place).is_relative_to(folder) for place in places):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def waiting(shell: str, marker: str) -> ToolUse:
    """A call of a program's shell that does not end by itself, one part of it in a session of its own. `running`
    counts both.
    """
    wait = f"{sys.executable} -c 'import time; time.sleep(3000)' {marker}"
    command = f"setsid {wait} & echo begun; {wait}"
    return ToolUse(shell, {"command": command, "description": "wait", "timeout": 500_000}, text="I wait.")


def running(marker: str) -> int:
    return sum(marker in (process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))


def composing(asked: Asked) -> Reply:
    """An agent that authors a tool and uses it, by how far the conversation is."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("tool_compose", {"source": COMPOSED}),
        ("tool_list", {}),
        ("tool_run", {"name": "twice", "inputs": {"x": 21}}),
    ]
    done = sum(1 for message in asked.messages if message["role"] == "assistant")
    return ToolUse(_full_name(asked, calls[done][0]), calls[done][1]) if done < len(calls) else Text("COMPOSED")


def _full_name(asked: Asked, tool: str) -> str:
    """The name under which a program offers a tool of ours, wherever in the request it says so."""
    found = re.search(rf"\b(?:mcp__)?[A-Za-z0-9-]+_+{tool}\b", "\n".join([*asked.tools, asked.system, *asked.said]))
    assert found, f"{tool} was not offered: {sorted(asked.tools)}"
    return found[0]
