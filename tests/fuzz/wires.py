"""What guests, workers, servers and agent programs say."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import ValidationError

from go_ent.composer import CallError, ToolSpec
from go_ent.composer.catalogue import stubs
from go_ent.composer.catalogue.schemas import BadSchema, Checker
from go_ent.composer.errors import BadName
from go_ent.composer.sources.mcp_answers import answer_of, entry_of
from go_ent.composer.sources.replies import Awaited, as_answer
from go_ent.composer.sources.server_config import Scrubber
from go_ent.engine.core.config import CommandConfig
from go_ent.engine.core.models import RunRequest
from go_ent.engine.processes.child import Ended
from go_ent.engine.runners.claude import stream
from go_ent.engine.runners.cli import commands
from go_ent.engine.runners.opencode import events
from go_ent.engine.workflows.loop_checks import _json as json_in
from go_ent.sandbox import Limits
from go_ent.sandbox.host.broker import Broker
from go_ent.sandbox.host.flight import Job, Landing
from go_ent.sandbox.host.outcome import build
from go_ent.sandbox.host.run import Run
from go_ent.sandbox.host.threads import Threads
from go_ent.sandbox.host.tools import Toolset
from go_ent.sandbox.images.cache import Image
from go_ent.sandbox.worker.end import End, Stop
from go_ent.sandbox.worker.wire import Closed, Frames, decode_done, frame, split_exchange, split_heard
from tests.fuzz.target import folder, target
from tests.support import ROOT

LIMITS = Limits()


class NoSchema(ValueError):
    """What is no object is not looked at as a schema."""


def pieces(data: bytes) -> Iterator[bytes]:
    """The data in pieces whose lengths it says itself, as a socket might give it."""
    at = 0
    while at < len(data):
        size = 1 + data[at] % 61
        yield data[at : at + size]
        at += size


@target(frame(13, b"x") + frame(15), b"\x00\x00\x00\x02\x0dab", b"\xff\xff\xff\xff\x01", refuses=(Closed,))
def frames(data: bytes) -> None:
    """Frames from a worker."""
    found = Frames()
    told = 0
    for piece in pieces(data):
        found.feed(piece)
        while (one := found.next()) is not None:
            told += 5 + len(one[1])
    assert told <= len(data)


@target(b"0.5\n[]", b"nan\n", b"-1\n[[],[]]", refuses=(Stop,))
def exchange(data: bytes) -> None:
    """How long a guest says that it can wait."""
    wait, body = split_exchange(data)
    assert wait is None or 0 <= wait <= 1e6
    assert data.endswith(body)


@target(b"1,[2,[3]]\n[[],[]]", b"\n", refuses=(Closed,))
def heard(data: bytes) -> None:
    """What a recorded guest has heard."""
    before, body = split_heard(data)
    assert before.isascii()
    assert before + b"\n" + body == data or not body


@target(
    b"\x00" + bytes(25) + b'{"status":"completed"}\x001',
    b"\x01" + bytes(25) + b"timeout",
    b"\x02" + bytes(25) + b"x\xff",
    refuses=(struct.error,),
)
def done(data: bytes) -> None:
    """A worker's last word: whatever goes wrong with it ends the worker alone."""
    end, cpu, memory, fuel, _ = decode_done(data)
    assert sum(one is not None for one in (end.answer, end.reason, end.trap)) == 1
    assert min(cpu, memory, fuel) >= 0


@cache
def broker() -> Broker:
    return Broker(
        Toolset({}), LIMITS, asyncio.new_event_loop(), Threads("fuzz"), lambda _: None, lambda _: None, lambda: 0
    )


@target(b'[[[1,"a.b",[1],{"x":2}]],[]]', b'[[[1,"a",[],{}],[2,"b",[],{}]],[1]]', b"[[],[1,2]]", b"[[],{}]")
def calls(data: bytes) -> None:
    """A guest's calls: taken as they should be, or not at all."""
    found = broker().parse(data)
    if found is None:
        return
    last = 0
    for number, name, args, kwargs in found[0]:
        assert (type(name), type(args), type(kwargs)) == (str, list, dict)
        assert last < number < 1 << 53
        last = number
    assert all(type(number) is int and 0 < number <= last for number in found[1])


ANSWERS = (
    b'{"status":"completed"}\x00{"a":[1,2.5,null]}\x00',
    b'{"status":"completed"}\x00"x"\x00[{"a.txt":4},["b.txt"]]\x00aGk=',
    b'{"status":"error","error":{"kind":"ValueError","message":"no","line":3}}\x00\x00',
    b'{"status":"result_limit","size":99999999}\x00\x00',
    b'{"status":"completed","size":99999999}\x00"cut"\x00',
)


@cache
def image() -> Image:
    return Image(folder(), "key", "digest", (), 1 << 20, "now", "")


@target(*ANSWERS)
def answer(data: bytes) -> None:
    """A guest's answer: whatever it is, a run with a status comes of it, and it can be written as JSON."""
    run = build("id", Landing(End(answer=data)), None, Job(b"", b"", LIMITS, keep=False), {"b.txt": b"x"}, image(), 1.0)
    assert Run.model_validate_json(run.model_dump_json()).status == run.status
    assert (run.status == "completed") == (run.error is None)


SCHEMAS = (
    b'{"type":"object","properties":{"a":{"type":"string","enum":["x"]},"b":{"$ref":"#/$defs/B"}},"required":["a"],"$defs":{"B":{"type":"integer"}}}',
    b'{"type":"object","properties":{"class":{"anyOf":[{"type":"null"},{"type":"array","items":{"type":"number"}}],"default":null}}}',
    b'{"oneOf":[{"const":1},{"pattern":"^(a+)+$"}],"title":"T\\"\\n"}',
    b'{"allOf":[{"$ref":"#"}],"additionalProperties":{"type":["string","null"]}}',
)


@target(*SCHEMAS, refuses=(ValueError,))
def stub(data: bytes) -> None:
    """Stubs of a tool with a schema from outside: one line of signature, and nothing but a class in the whole."""
    schema = json.loads(data[:20_000].decode("utf-8", "replace"))
    if not isinstance(schema, dict):
        raise NoSchema
    spec = ToolSpec(name="up.tool", description=data.decode("latin-1"), input_schema=schema, output_schema=schema)
    assert "\n" not in stubs.signature(spec)
    compile(stubs.stub(spec), "stub", "exec", dont_inherit=True)


@target(*SCHEMAS, refuses=(ValueError, BadSchema))
def schema_check(data: bytes) -> None:
    """A schema from outside: taken, or refused in words."""
    schema = json.loads(data[:5_000].decode("utf-8", "replace"))
    if not isinstance(schema, dict):
        raise NoSchema
    Checker(schema)


LISTED = b'{"name":"get-issue","description":"d","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}'


@target(
    LISTED,
    b'{"name":"a b","inputSchema":{"type":"object","properties":{}},"outputSchema":{"type":"object"}}',
    refuses=(ValidationError, BadName),
)
def listed(data: bytes) -> None:
    """A tool as a server lists it."""
    from mcp_types import Tool

    entry = entry_of("up", Tool.model_validate_json(data), "a server", Scrubber())
    assert entry.spec.name.startswith("up.")
    assert len(entry.spec.description) <= 5_000


RESULTS = (
    b'{"content":[{"type":"text","text":"{\\"a\\": 1}"}]}',
    b'{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"}],"structuredContent":{"result":[1]}}',
    b'{"content":[{"type":"text","text":"no"}],"isError":true}',
    b'{"content":[{"type":"resource_link","uri":"a://b","name":"x"}]}',
)


@target(*RESULTS, refuses=(ValidationError, CallError))
def result(data: bytes) -> None:
    """A server's answer to a call."""
    from mcp_types import CallToolResult, Tool

    entry = entry_of("up", Tool.model_validate_json(LISTED), "a server", Scrubber())
    json.dumps(answer_of(CallToolResult.model_validate_json(data), entry, Scrubber(["secret"]), Scrubber(["secret"])))


@target(
    b'{"jsonrpc":"2.0","id":1,"result":{}}',
    b'{"result":{"id":3},"jsonrpc":"2.0","id":2}\n{"jsonrpc":"2.0","id":3,"result":{"n":' + b"9" * 5000 + b"}}",
    b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}\n{"jsonrpc":"2.0","method":"a"}\nnull\nnoise',
)
def replies(data: bytes) -> None:
    """The lines of a server: no request is answered twice, none that was never made, and what can't be read is an
    error.
    """
    from mcp.shared.dispatcher import coerce_request_id
    from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter

    awaited, left = Awaited(), {1, 2, 3}
    for number in sorted(left):
        awaited.to_send(JSONRPCRequest(jsonrpc="2.0", id=number, method="x"))
    for line in data.split(b"\n"):
        for message in awaited.read(line):
            if isinstance(message, JSONRPCResponse | JSONRPCError):
                left.remove(int(message.id or 0))
    answer = jsonrpc_message_adapter.validate_json(as_answer(data, 7), by_name=False)
    assert isinstance(answer, JSONRPCResponse | JSONRPCError)
    assert coerce_request_id(answer.id or 0) == 7


def recorded(program: str) -> tuple[bytes, ...]:
    folder = ROOT / "tests" / "support" / "recordings" / program
    return tuple(path.read_bytes() for path in sorted(folder.iterdir()))


CLAUDE = (
    b'{"type":"system","subtype":"init","session_id":"s","model":"m","tools":["Read"],"mcp_servers":[{"name":"x","status":"failed"}]}',
    b'{"type":"assistant","message":{"id":"1","content":[{"type":"text","text":"hi"},{"type":"tool_use","id":"t","name":"Write","input":{"file_path":"/a"}}],'
    b'"usage":{"input_tokens":1,"output_tokens":2}},"session_id":"s"}',
    b'{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","is_error":true,"content":"no"}]}}',
    b'{"type":"result","subtype":"success","is_error":false,"result":"ok","total_cost_usd":0.1,"usage":{"input_tokens":3},"modelUsage":{"m":{"costUSD":1}}}',
)


@target(b"\n".join(CLAUDE), *CLAUDE, *recorded("claude"))
def claude(data: bytes) -> None:
    """What Claude Code prints: never an error of ours, and figures that add up to numbers."""
    said: list[Any] = []
    transcript = stream.ClaudeTranscript(said.append, tools=frozenset({"Read"}), server="x", max_tokens=100)
    for line in data.split(b"\n"):
        transcript.line(line)
    transcript.output.encode("utf-8", "replace")
    for tokens in (transcript.tokens, transcript.uncounted):
        assert tokens is None or (tokens.input >= 0 and tokens.output >= 0)
    assert all(isinstance(note, str) for note in (*transcript.notes, *transcript.files))


OPENCODE = (
    b'{"type":"text","sessionID":"s","part":{"id":"p","type":"text","text":"hi"}}',
    b'{"type":"tool_use","sessionID":"s","part":{"id":"q","tool":"write","state":{"status":"completed","input":{"filePath":"/a"},"output":""}}}',
    b'{"type":"step_finish","sessionID":"s","part":{"id":"r","reason":"stop","cost":0.1,"tokens":{"input":1,"output":2,"reasoning":0,"cache":{"read":1}}}}',
    b'{"type":"error","sessionID":"s","error":{"name":"APIError","data":{"message":"no","statusCode":401}}}',
)


@target(b"\n".join(OPENCODE), *OPENCODE, b'{"type":{},"part":{"reason":[]}}', *recorded("opencode"))
def opencode(data: bytes) -> None:
    """What opencode prints, and what comes of it."""
    said: list[Any] = []
    transcript = events.OpencodeTranscript(said.append, max_usd=1.0, max_tokens=100)
    for line in data.split(b"\n"):
        transcript.line(line)
    request = RunRequest(execution_id="e", prompt="x", cwd="/")
    status, _, message = events.verdict(transcript, Ended("exit", 0, "", 1), request, "")
    assert (status == "completed") == (message is None)
    assert transcript.cost_usd is None or 0 <= transcript.cost_usd < float("inf")


EVENTS = (
    b'{"type":"message.updated","properties":{"sessionID":"s","info":{"id":"m","role":"assistant","providerID":"p","modelID":"x"}}}',
    b'{"type":"message.part.updated","properties":{"sessionID":"s","part":{"id":"p","messageID":"m","type":"step-finish","reason":"stop","cost":1}}}',
    b'{"type":"session.created","properties":{"info":{"id":"t","parentID":"s"}}}',
    b'{"type":"session.error","properties":{"sessionID":"s","error":{"name":"APIError","data":{"statusCode":429}}}}',
    b'{"type":"session.status","properties":{"sessionID":["s"],"status":{"type":"retry"}}}',
)


@target(b"\n".join(EVENTS), *EVENTS)
def opencode_served(data: bytes) -> None:
    """What opencode's server tells."""
    transcript = events.OpencodeTranscript(lambda _: None, max_usd=1.0, max_tokens=100)
    transcript.opened("s")
    for line in data.split(b"\n"):
        said = events._object(line) or {}
        about = said.get("properties")
        if isinstance(about, dict):
            transcript.event(str(said.get("type")), about)
    transcript.answer(200, events._object(data) or {})
    assert transcript.cost_usd is None or 0 <= transcript.cost_usd < float("inf")


@target(b'{"reply":{"text":"hi"},"n":[1,2],"usd":0.5}', b'{"reply":{}}\n{"reply":{"text":"a"}}', b"[1]")
def command(data: bytes) -> None:
    """What a command prints, read in each way."""
    config = CommandConfig.model_validate(
        {
            "argv": ["x"],
            "format": "json",
            "path": "reply.text",
            "tokens_in": "n.0",
            "tokens_out": "n.1",
            "cost_usd": "usd",
        }
    )

    async def read() -> None:
        for kind in ("text", "json", "jsonl"):
            reader = commands.READERS[kind](config, lambda _: None)
            for line in data.split(b"\n"):
                reader.line(line)
            found = reader.answer()
            assert isinstance(found.text, str)
            assert found.cost_usd is None or found.cost_usd >= 0

    loop().run_until_complete(read())


@cache
def loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


@target(b'```json\n{"passed": true}\n```', b'{"passed": false}', b"no")
def verdict(data: bytes) -> None:
    """A model's verdict about a check."""
    json_in(data.decode("utf-8", "replace"))
