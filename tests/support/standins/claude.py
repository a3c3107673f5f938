"""Stands in for Claude Code: says what the real one was recorded to say, and writes down what it was given.

What to do comes by the environment: `STANDIN_SAYS` names what is replayed (a prompt `say NAME` does so too),
`STANDIN_LOG` is the file for what was given, `STANDIN_CHILD` the file for the pid of a shell command that it starts.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

RECORDINGS = os.path.join(os.path.dirname(__file__), os.pardir, "recordings", "claude")
SAYS = os.environ.get("STANDIN_SAYS", "answer")
# How the real one ended: exit code and stderr.
ENDS = {
    **dict.fromkeys(
        (
            "error_400",
            "error_401",
            "error_429",
            "error_529",
            "retry_401",
            "refused",
            "no_key",
            "max_turns",
            "max_budget",
        ),
        (1, ""),
    ),
    "no_session": (1, "No conversation found with session ID: 00000000-0000-4000-8000-000000000000\n"),
}
ONLY_STDERR = {
    "bad_flag": (1, "error: unknown option '--bogus'\n"),
    "broken": (1, "node:internal/modules/cjs/loader:1228\n  throw err;\nError: Cannot find module 'x'\n"),
    "leaks": (1, f"Error: the key {os.environ.get('ANTHROPIC_API_KEY')} is of no use\n"),
    "nothing": (0, ""),
}
# Where it was interrupted: what the first line of the rest holds.
CUTS = {"aborted_stream": '"aborted": true', "aborted_tool": '"type": "user"'}


def log(**what: Any) -> None:
    with open(os.environ["STANDIN_LOG"], "a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\n")


def recorded(name: str) -> list[str]:
    with open(os.path.join(RECORDINGS, f"{name}.jsonl"), encoding="utf-8") as file:
        return file.readlines()


def say(lines: list[str]) -> None:
    data = "".join(lines).encode()
    while data:  # not by sys.stdout: a signal may come in the middle, and its handler says something too
        data = data[os.write(1, data) :]


def leave(code: int, lines: list[str] | None = None) -> None:
    say(lines or [])
    os._exit(code)


def hang() -> None:
    while True:
        time.sleep(60)


def named_files() -> dict[str, Any]:
    """What is in the files that flags name, and who may read them."""
    found = {}
    for flag in sys.argv[1:]:
        name, _, path = flag.partition("=")
        if name in {"--mcp-config", "--append-system-prompt-file"}:
            with open(path, encoding="utf-8") as file:
                found[name] = {"path": path, "text": file.read(), "mode": oct(os.stat(path).st_mode & 0o777)}
    return found


def headless() -> int:
    # As in the real one, a signal before the first word ends it without any.
    signal.signal(signal.SIGINT, lambda *_: leave(0))
    stdin = sys.stdin.buffer.read().decode()
    says = stdin.removeprefix("say ") if stdin.startswith("say ") else SAYS
    log(argv=sys.argv[1:], stdin=stdin, env=dict(os.environ), cwd=os.getcwd(), files=named_files())
    if says in ONLY_STDERR:
        code, words = ONLY_STDERR[says]
        sys.stderr.write(words)
        return code
    if says in CUTS:
        lines = recorded(says)
        place = next(number for number, line in enumerate(lines) if CUTS[says] in line)
        signal.signal(signal.SIGINT, lambda *_: leave(0, lines[place:]))
        say(lines[:place])
        hang()
    if (
        says == "silent"
    ):  # the model takes the request and says nothing; the result that comes of a signal counts nothing
        lines = recorded("aborted_stream")
        signal.signal(signal.SIGINT, lambda *_: leave(0, lines[-1:]))
        say(lines[: next(number for number, line in enumerate(lines) if '"stream_event"' in line)])
        hang()
    does_not_end(says)
    say(lines_of(says))
    code, words = ENDS.get(says, (0, ""))
    sys.stderr.write(words)
    return code


def does_not_end(says: str) -> None:
    """What hangs until a signal comes. A run that the real one goes on with, for minutes, is cut after its third
    line.
    """
    match says:
        case "early":
            hang()
        case "retry_401" | "dead_server":
            say(recorded(says)[:3])
            hang()
        case "retrying":
            say(
                [
                    line.replace("401", "429").replace("authentication_failed", "rate_limit")
                    for line in recorded("retry_401")[:3]
                ]
            )
            hang()
        case "lingering":
            say(recorded("answer"))
            hang()
        case "flood":
            say(["x" * (17 << 20)])
            hang()
        case "terminated":
            signal.signal(signal.SIGTERM, lambda *_: leave(143))
            say(recorded(says))
            os.kill(os.getpid(), signal.SIGTERM)
            hang()
        case "stubborn":
            start_child()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            say(recorded("aborted_tool")[:-3])
            hang()


def start_child() -> None:
    """A shell command, in a session of its own as the real one's are."""
    import subprocess

    child = subprocess.Popen(["sleep", "300"], start_new_session=True)
    with open(os.environ["STANDIN_CHILD"], "w", encoding="utf-8") as file:
        file.write(str(child.pid))


def lines_of(says: str) -> list[str]:
    match says:
        case "no_mcp" | "no_agent" | "no_agents":
            return recorded("shape")
        case "cut":
            return recorded("answer")[:4]
        case "unpriced":
            return [line.replace('"costUSD"', '"costBasis": "unknown", "costUSD"') for line in recorded("answer")]
        case "noise":
            other = [
                "A new version is available\n",
                "\n",
                '{"type": "something_new"}\n',
                "[1, 2]\n",
                *(f"line {n}\n" for n in range(50)),
            ]
            return [*other, *recorded("answer")]
        case _:
            return recorded(says)


def serve() -> int:
    """`claude mcp serve`: JSON-RPC, a line each."""
    log(argv=sys.argv[1:], env=dict(os.environ), cwd=os.getcwd(), there=os.listdir("."))
    if SAYS == "no_mcp":
        sys.stderr.write("error: unknown command 'mcp'\n")
        return 1
    with open(os.path.join(RECORDINGS, "agent.json"), encoding="utf-8") as file:
        agent = json.load(file)
    for line in sys.stdin:
        message = json.loads(line)
        match message["method"]:
            case "initialize":
                version = message["params"]["protocolVersion"]
                answer = {
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "claude/tengu", "version": "2.1.325"},
                }
            case "tools/list":
                read = {"name": "Read", "inputSchema": {"type": "object"}}
                answer = {"tools": [read] if SAYS == "no_agent" else [agent["tool"], read]}
            case "tools/call":
                log(called=message["params"])
                if SAYS == "agent_dies":
                    sys.stderr.write("it is all over\n")
                    return 1
                if SAYS == "agent_hangs":
                    continue
                if SAYS == "no_agents":
                    text = "Agent type 'general-purpose' not found. Available agents: "
                    answer = {"content": [{"type": "text", "text": text}], "isError": True}
                else:
                    answer = agent[SAYS.removeprefix("agent_")]
            case other:
                if other == "notifications/cancelled":
                    log(cancelled=True)
                continue
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
    return 0


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        log(version=True)
        print("2.1.325 (Claude Code)")
        return 0
    return serve() if sys.argv[-2:] == ["mcp", "serve"] else headless()


if __name__ == "__main__":
    sys.exit(main())
