"""Lines over stdio that are no message: a client that waits for an answer gets one, and is served on."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from go_ent.engine.server.unreadable import INVALID_REQUEST, PARSE_ERROR, refuse
from tests.support.forked import Forked
from tests.support.rows import each

CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}
CODE = {"name": "code_execute", "arguments": {"code": "1 + 1"}}


def refused(line: str) -> tuple[Any, int] | None:
    with pytest.raises(ValidationError) as raised:
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    answer = refuse(raised.value)
    return None if answer is None else (answer.id, answer.error.code)


@each(
    ("line", "expected"),
    [
        (json.dumps({**CALL, "params": {"code": "\ud800"}}), (7, PARSE_ERROR)),
        (json.dumps({**CALL, "id": "a", "params": {"code": "\udfff"}}), ("a", PARSE_ERROR)),
        (json.dumps({**CALL, "id": ["a"], "params": {"code": "\udfff"}}), (None, PARSE_ERROR)),
        (json.dumps({**CALL, "id": "a" * 1000, "params": {"code": "\udfff"}}), (None, PARSE_ERROR)),
        ('{"jsonrpc": "2.0", "id": 7, "method": ', (None, PARSE_ERROR)),
        ("[" * 100_000, (None, PARSE_ERROR)),
        ("hello", (None, PARSE_ERROR)),
        ('{"id": 7}', (7, INVALID_REQUEST)),
        ('{"jsonrpc": "1.0", "id": 7, "method": "ping"}', (7, INVALID_REQUEST)),
        ('{"method": "a notification of nobody\'s"}', None),
        ('{"jsonrpc": "2.0", "id": 7, "result": null}', None),
        ('{"jsonrpc": "2.0", "id": 7, "error": "no"}', None),
        ('{"jsonrpc": "2.0", "id": 7, "result": {"text": "\\ud800"}}', None),
        ('{"jsonrpc": "2.0", "method": 5, "params": {"id": 7}}', None),
        ("  ", None),
        ("[1, 2]", None),
    ],
)
def test_it_is_answered_by_its_number_if_it_has_one(line: str, expected: tuple[Any, int] | None) -> None:
    assert refused(line) == expected


def test_a_client_is_told_and_is_served_on(project: Path) -> None:
    server = Forked("serve", cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "it", "version": "1"}}
    half = {"name": "code_execute", "arguments": {"code": "'\ud800'"}}
    lines = [
        {**CALL, "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {**CALL, "id": 2, "params": half},
        {**CALL, "id": 3, "params": CODE},
    ]
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        server.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        server.stdin.flush()
        answers: dict[Any, Any] = {}
        while set(answers) != {1, 2, 3}:
            answer = json.loads(server.stdout.readline())
            if "method" not in answer:
                answers[answer["id"]] = answer
    finally:
        server.kill()
        server.wait()
        for stream in (server.stdin, server.stdout, server.stderr):
            assert stream is not None
            stream.close()
    assert answers[2]["error"]["code"] == PARSE_ERROR
    assert "not JSON that can be read" in answers[2]["error"]["message"]
    assert answers[3]["result"]["structuredContent"]["result"] == 2
