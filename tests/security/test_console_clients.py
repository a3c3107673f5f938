"""What one client of the console could have of another: sessions, tools, room."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from go_ent.composer.composed import toolfile
from go_ent.composer.composed.store import Store
from go_ent.engine.console.app import Console
from go_ent.engine.console.schema_form import fields_of
from go_ent.engine.console.sessions import MOST_SESSIONS, Sessions
from go_ent.engine.server.calls.callers import Caller
from go_ent.sandbox import Sandbox
from tests.composer.conftest import tool
from tests.security.corpus import attack
from tests.support.console import Browser, opened, run

PAY = 'def pay(amount: int) -> int:\n    """Pay."""\n    return amount\n'
ANN = Caller("ann", ends_with_project=True)
BOB = Caller("bob", allow=("mine",), ends_with_project=True)


@pytest.fixture
async def console(project: Path, shared_box: Sandbox) -> AsyncIterator[Console]:
    Store(project / ".go-ent" / "composed-tools", "project").save(toolfile.read(tool("pay", PAY)))
    async with opened(project, shared_box) as made:
        yield made


@attack("console", "variables of another client's session, by its name")
async def test_a_session_of_the_playground_is_its_clients_own(console: Console) -> None:
    ann, bob = await Browser(console).sign_in(ANN), await Browser(console).sign_in(BOB)
    try:
        await ann.post("/playground/run", {"code": "kept = 'their secret'", "session": "work"})
        seen = await bob.post("/playground/run", {"code": "kept", "session": "work"}, follow_redirects=True)
        own = await ann.post("/playground/run", {"code": "kept[:5]", "session": "work"}, follow_redirects=True)
    finally:
        await ann.close()
        await bob.close()
    assert "NameError" in seen.text
    assert "their secret" not in seen.text
    assert "their" in own.text


@attack("console", "a tool that a client may not call, replaced by one made from its own run")
async def test_who_may_not_call_a_tool_does_not_replace_it_by_a_run(console: Console) -> None:
    made = await run(console, "'stolen'", client="bob")
    bob = await Browser(console).sign_in(BOB)
    try:
        answer = await bob.post(f"/runs/{made.id}/save", {"name": "pay"})
    finally:
        await bob.close()
    assert answer.status_code == 409
    assert "pay is not granted" in answer.text
    assert "stolen" not in (await console.composer.composed.get("pay")).file.source


@attack("console", "sign-ins of one client that leave no room for the sessions of others")
def test_sign_ins_of_one_client_end_nobody_elses_session() -> None:
    sessions = Sessions()
    ann = sessions.open(ANN)
    bobs = [sessions.open(BOB) for _ in range(2 * MOST_SESSIONS)]
    assert sessions.find(ann) is not None
    assert [sessions.find(one) is not None for one in (bobs[0], bobs[-1])] == [False, True]


@attack("console", "a schema whose required names are none")
@pytest.mark.parametrize("required", [[["a"]], [{}], ["a", None, 1], {"a": 1}, "a"])
def test_a_schema_without_sense_is_a_form(required: object) -> None:
    assert [field.name for field in fields_of({"properties": {"a": {}}, "required": required})] == ["a"]
