"""What is said about a run beside its timeline: its code, what it used of its limits, and how to do it again."""

from __future__ import annotations

import json
import shlex
from typing import Any

from go_ent.composer import ComposerError
from go_ent.dataclass import dataclass
from go_ent.engine.console.visit import Viewer
from go_ent.engine.console.words import number, size, took
from go_ent.engine.executions.kept_files import KeptFile
from go_ent.engine.executions.state import ExecutionState

LONGEST_COMMAND = 20_000


@dataclass(frozen=True, slots=True)
class Bar:
    """How much of a limit was used."""

    name: str
    used: float
    most: float | None
    said: str


def order_of(state: ExecutionState) -> dict[str, Any]:
    """What was run in a guest, as it was asked; empty if it was something else."""
    order = state.work.get("guest")
    return order if isinstance(order, dict) else {}


async def source_of(viewer: Viewer, state: ExecutionState) -> tuple[str, str]:
    """The code that a run ran, and its language: its own, or that of the version of its tool."""
    order = order_of(state)
    language = str(order.get("language") or "python")
    if isinstance(order.get("code"), str):
        return order["code"], language
    if isinstance(order.get("tool"), str) and state.source:
        try:
            version = await viewer.composer.version(order["tool"], digest=state.source)
        except (ComposerError, OSError):
            return "", language
        return (version.file.source, version.file.language) if version is not None else ("", language)
    return "", language


def bars_of(viewer: Viewer, state: ExecutionState, used: dict[str, Any], files: list[KeptFile]) -> list[Bar]:
    """What a run in a guest used of its limits; of a task, its cost and its context."""
    bars: list[Bar] = []
    if order := order_of(state):
        limits = viewer.composer.box.limits.model_dump() | (order.get("limits") or {})
        result = next((len(one.output.encode("utf-8", "replace")) for one in state.results.values()), 0)
        figures = (
            ("Time", used.get("wall_ms", 0) / 1000, limits.get("timeout_s"), took),
            ("CPU", used.get("cpu_ms", 0) / 1000, limits.get("cpu_s"), took),
            ("Memory", used.get("memory_bytes", 0), _times(limits.get("memory_mb"), 1 << 20), size),
            ("Calls", state.calls, limits.get("max_tool_calls"), number),
            ("Output", used.get("stdout_bytes", 0), limits.get("max_stdout_bytes"), size),
            ("Result", result, limits.get("max_result_bytes"), size),
            ("Files", sum(one.size for one in files), limits.get("max_file_bytes"), size),
        )
        for name, value, most, words in figures:
            if used or name in ("Calls", "Result", "Files"):
                of = f" of {words(most)}" if most is not None else ""
                bars.append(Bar(name, float(value), most, f"{words(value)}{of}"))
    if state.fill is not None:
        said = f"{state.fill.tokens:,} of {state.fill.window:,} tokens"
        bars.append(Bar("Context", state.fill.tokens, state.fill.window, said))
    limit = viewer.engine.config.budget.execution
    if limit is not None and limit.usd is not None and state.spent_usd:
        bars.append(Bar("Budget of a run", state.spent_usd, limit.usd, f"${state.spent_usd:.4f} of ${limit.usd:g}"))
    return bars


def _times(value: Any, factor: int) -> Any:
    return None if value is None else value * factor


def commands_of(state: ExecutionState, code: str, language: str) -> list[tuple[str, str]]:
    """How to do it again: in a shell, over MCP, in Python."""
    order = order_of(state)
    inputs = order.get("inputs") or {}
    if not order or len(code) + len(json.dumps(inputs, default=str)) > LONGEST_COMMAND:
        return []
    given = json.dumps(inputs, ensure_ascii=False, default=str)
    if isinstance(tool := order.get("tool"), str):
        shell = ["go-ent", "tool", "run", tool, *([f"--input={given}"] if inputs else [])]
        called: dict[str, Any] = {"name": tool, "arguments": inputs}
        python = f"GuestOrder(tool={tool!r}, inputs={inputs!r})"
    else:
        spoken = [] if language == "python" else ["-l", language]
        shell = ["go-ent", "exec", *spoken, "-c", code, *([f"--input={given}"] if inputs else [])]
        more = {**({"inputs": inputs} if inputs else {}), **({} if language == "python" else {"language": language})}
        called = {"name": "code_execute", "arguments": {"code": code, **more}}
        python = f"GuestOrder(code={code!r}, inputs={inputs!r}, language={language!r})"
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called}, ensure_ascii=False)
    curl = (
        "curl http://127.0.0.1:8765/mcp -H 'content-type: application/json' "
        "-H 'accept: application/json, text/event-stream' "
        f"-H 'authorization: Bearer '\"$GO_ENT_TOKEN\" -d {shlex.quote(body)}"
    )
    program = (
        "from go_ent.engine import BlockingEngine, GuestOrder\n\nwith BlockingEngine('.') as engine:\n"
        f"    print(engine.run({python}).result)\n"
    )
    return [("In a shell", shlex.join(shell)), ("Over HTTP (go-ent serve --http 8765)", curl), ("In Python", program)]
