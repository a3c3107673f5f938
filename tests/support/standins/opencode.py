"""Stands in for opencode: says what the real one was recorded to say, and writes down what it was given.

What to do comes by the environment: `STANDIN_SAYS` names what is replayed, `STANDIN_LOG` is the file for what was
given,
`STANDIN_VERSION` what `--version` says, `STANDIN_CHILD` the file for the pid of a shell command that it starts. A
plugin of its configuration is not run but read: the shell command finds what it says.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

TYPE_CHECKING = False  # without typing, which takes longer to import than all else here
if TYPE_CHECKING:
    import subprocess
    from typing import Any

RECORDINGS = os.path.join(os.path.dirname(__file__), os.pardir, "recordings", "opencode")
SAYS = os.environ.get("STANDIN_SAYS", "ok")
# How the real one ended: exit code and stderr.
ENDS = {
    "error_401": (1, ""),
    "bad_model": (1, ""),
    "permission_rejected": (0, "! permission requested: external_directory (/elsewhere/*); auto-rejecting\n"),
    "no_session": (1, "\x1b[91m\x1b[1mError: \x1b[0mSession not found\n"),
    "failed": (1, "Error: the key sk-very-secret-key is of no use\n"),
}


def log(**what: Any) -> None:
    with open(os.environ["STANDIN_LOG"], "a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\n")


def recorded(name: str) -> list[dict[str, Any]]:
    with open(os.path.join(RECORDINGS, f"{name}.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def say(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)


def shell_environment(session: str) -> dict[str, str]:
    import re
    from urllib.parse import unquote

    said = {}
    for plugin in json.loads(os.environ.get("OPENCODE_CONFIG_CONTENT") or "{}").get("plugin", ()):
        with open(unquote(plugin.removeprefix("file://")), encoding="utf-8") as file:
            text = file.read()
        hidden, prefix = re.findall(r"of (\[.*?\])|GO_ENT_RUN = (\".*?\") \+ asked.sessionID", text)
        said = dict.fromkeys(json.loads(hidden[0]), "") | {"GO_ENT_RUN": json.loads(prefix[1]) + session}
    return {**os.environ, **said}


def start_child(session: str = "") -> subprocess.Popen[bytes]:
    """A shell command, in a session of its own as the real one's are."""
    import subprocess

    env = shell_environment(session)
    log(kind="shell", env=env)
    child = subprocess.Popen(
        ["sleep", "300"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, env=env
    )
    with open(os.environ["STANDIN_CHILD"], "w", encoding="utf-8") as file:
        file.write(str(child.pid))
    return child


def hang() -> None:
    while True:
        time.sleep(60)


def run() -> int:
    # It dies by a signal, without a word.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if SAYS == "child":
        events = recorded("tool_use")
        events[4]["part"]["text"] = "partial"
        start_child()
        for event in (events[0], events[4]):
            say(event)
        hang()
    if SAYS == "429":  # tried again and again, in silence
        hang()
    if SAYS == "steps":
        for event in recorded("tool_use")[:3]:
            say(event)
        hang()
    if SAYS == "killed":
        say(recorded("ok")[0])
        os.kill(os.getpid(), signal.SIGKILL)
    if SAYS == "noise":
        print("Performing one time database migration...\n{not json")
    if SAYS == "text":
        events = recorded("ok")
        events[1]["part"]["text"] = os.environ["OPENCODE_STANDIN_TEXT"]
        for event in events:
            say(event)
    elif SAYS not in {"empty", "no_session", "failed"}:
        for event in recorded("ok" if SAYS == "noise" else SAYS):
            say(event)
    code, stderr = ENDS.get(SAYS, (0, ""))
    sys.stderr.write(stderr)
    return code


def old() -> int:
    print(json.dumps({"response": "an old answer"}, indent=2))
    return 0


def serve() -> int:
    import base64
    import contextlib
    import socketserver  # and not http.server, which takes longer to import than it takes to do without
    import threading

    if SAYS == "no_server":
        sys.stderr.write("Error: address in use\n")
        return 1
    wanted = "Basic " + base64.b64encode(f"opencode:{os.environ['OPENCODE_SERVER_PASSWORD']}".encode()).decode()
    replayed = {
        "child": "serve_aborted",
        "escapes": "serve_aborted",
        "leaves": "serve_write",
        "stubborn": "serve_aborted",
        "dies": "serve_tool_use",
        "steps": "serve_tool_use",
        "open": "serve_write",
    }
    script = recorded(replayed.get(SAYS, SAYS))
    events, answer = [line["event"] for line in script[:-1]], script[-1]["answer"]
    session = events[1]["properties"]["sessionID"]
    if SAYS == "steps":  # the first of two, and then it works on
        first = next(
            n for n, event in enumerate(events) if event["properties"].get("part", {}).get("type") == "step-finish"
        )
        events = [*events[: first + 1], *(event for event in events[first:] if event["type"] == "session.idle")]
        answer = {"status": 200, "body": {"info": {}, "parts": []}}
    told = threading.Condition()
    sent: list[dict[str, Any]] = []
    asked_for: set[str] = set()
    children: list[subprocess.Popen[bytes]] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                while line := self.rfile.readline():
                    self.request_of(line.decode().split()[1])

        def request_of(self, target: str) -> None:
            headers = {}
            while line := self.rfile.readline().strip():
                name, _, value = line.decode().partition(":")
                headers[name.lower()] = value.strip()
            body = json.loads(self.rfile.read(int(headers.get("content-length", 0))) or b"null")
            path, _, query = target.partition("?")
            known = SAYS == "open" or headers.get("authorization") == wanted
            if path != "/global/health":
                log(kind="http", path=path, query=query, body=body, known=known)
            if not known:
                self.answer(401, None)
            elif path == "/event":
                self.stream()
            elif path == "/mcp":
                dead = {"status": "failed", "error": "Connection closed"}
                self.answer(200, {"go-ent": dead if "STANDIN_DEAD" in os.environ else {"status": "connected"}})
            elif path == "/session":
                self.answer(200, {"id": session})
            elif path.endswith("/message"):
                self.message()
            else:
                if not (SAYS == "stubborn" and path.endswith("/abort")):
                    self.obey(path.rpartition("/")[2])
                self.answer(200, True)

        def obey(self, what: str) -> None:
            for child in children if what == "abort" and SAYS != "escapes" else ():
                child.kill()
                child.wait()
            with told:
                asked_for.add(what)
                told.notify_all()

        def answer(self, status: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.wfile.write(b"HTTP/1.1 %d -\r\ncontent-length: %d\r\n\r\n%b" % (status, len(data), data))

        def stream(self) -> None:
            self.wfile.write(b"HTTP/1.1 200 -\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            at = len(sent)
            self.event(events[0])
            while True:
                with told:
                    while len(sent) == at:
                        told.wait()
                    new, at = sent[at:], len(sent)
                for event in new:
                    self.event(event)

        def event(self, event: dict[str, Any]) -> None:
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")

        def message(self) -> None:
            asked_for.clear()
            if SAYS in {"child", "stubborn", "escapes", "leaves"}:
                children.append(start_child(session))
            stops = SAYS in {"child", "stubborn", "escapes", "steps", "serve_aborted", "serve_429"}
            for number, event in enumerate(events[1:]):
                if stops and event["type"] in {"session.error", "session.idle"}:
                    stops = False
                    self.until("abort")
                if event["type"] == "permission.replied":
                    self.until("reply")
                if event["type"] == "permission.asked":
                    event["properties"]["permission"] = os.environ.get("STANDIN_ASKS", "external_directory")
                if SAYS == "dies" and number == 14:
                    start_child(session)
                    sys.stderr.write("out of memory\n")
                    sys.stderr.flush()
                    os.kill(os.getpid(), signal.SIGKILL)
                with told:
                    sent.append(event)
                    told.notify_all()
            self.answer(answer["status"], answer["body"])

        def until(self, name: str) -> None:
            with told:
                told.wait_for(lambda: name in asked_for)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    print(f"opencode server listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server.serve_forever()
    return 0


def main() -> int:
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(os.environ.get("STANDIN_VERSION", "1.18.33"))
        return 0
    first = arguments[0] if arguments else ""
    stdin = sys.stdin.buffer.read().decode() if first == "run" else ""
    log(kind="start", argv=arguments, stdin=stdin, env=dict(os.environ), cwd=os.getcwd(), pid=os.getpid())
    if first == "run":
        return run()
    if first == "serve":
        return serve()
    return old() if first.startswith("--prompt=") else 1


if __name__ == "__main__":
    sys.exit(main())
