"""The pages of tools: seen, searched, run by a form, tested, rolled back, removed, granted; and what clients may."""

from __future__ import annotations

import re

import pytest

from go_ent.engine.console.app import Console
from go_ent.engine.console.schema_form import fields_of, inputs_of
from go_ent.engine.console.visit import Refused
from go_ent.engine.console.words import exact
from go_ent.engine.server.calls.callers import Caller
from tests.support.console import Browser

HOSTILE = "<img src=x onerror=alert(1)>\u202e"
TOOL = '''# /// tool
# name = "words"
# ///
# /// examples
# {"inputs": {"text": "a b"}, "result": 2}
# ///
def words(text: str, least: int = 0) -> int:
    """How many words; HOSTILE

    In detail: [x](javascript:alert(1))
    """
    return len([one for one in text.split() if len(one) >= least])
'''.replace("HOSTILE", "<img src=x onerror=alert(1)>")


async def test_a_tool_is_listed_shown_run_and_tested(console: Console, browser: Browser) -> None:
    await console.composer.compose(TOOL)
    page = (await browser.get("/tools")).text
    assert "/console/tools/composed/words" in page
    assert "<img src=x" not in page
    (version,) = await console.composer.history("words")
    assert f'data-name="changed"><time datetime="{exact(version.saved)}"' in page
    page = (await browser.get("/tools/composed/words")).text
    assert "What a model reads" in page
    assert "<img src=x" not in page
    assert 'href="javascript:' not in page
    answer = await browser.post("/tools/run/words", {"in.text": "a bb ccc", "in.least": "2"})
    assert answer.status_code == 303
    (execution,) = re.findall(r"/console/runs/(\S+)", answer.headers["location"])
    state = await console.engine.status(execution)
    assert (state.status, state.kind, state.work["guest"]["inputs"]) == (
        "completed",
        "tool",
        {"text": "a bb ccc", "least": 2},
    )
    assert "passed" in (await browser.post("/tools/composed/words/test")).text


async def test_a_field_that_can_not_be_read_is_named(console: Console, browser: Browser) -> None:
    await console.composer.compose(TOOL)
    answer = await browser.post("/tools/run/words", {"in.text": "a", "in.least": HOSTILE})
    assert answer.status_code == 400
    assert "least must be an integer" in answer.text
    assert "<img src=x" not in answer.text
    assert 'name="in.least" inputmode="decimal" value="&lt;img src=x' in answer.text  # what was typed is kept


async def test_versions_are_compared_and_rolled_back_after_a_question(console: Console, browser: Browser) -> None:
    await console.composer.compose(TOOL)
    await console.composer.compose(TOOL.replace("len(one) >= least", "len(one) > least - 1"))
    page = (await browser.get("/tools/composed/words")).text
    assert "from version 1 to 2" in page
    assert "least - 1" in re.sub(r"<[^>]*>", "", page)
    question = await browser.post("/tools/composed/words/rollback", {"version": "1"})
    assert "Make version 1 of words the current one?" in question.text
    assert len(await console.composer.history("words")) == 2
    answer = await browser.post("/tools/composed/words/rollback", {"version": "1", "sure": "yes"})
    assert answer.status_code == 303
    assert [one.number for one in await console.composer.history("words")] == [1, 2, 3]
    assert (await browser.post("/tools/composed/words/rollback", {"version": "1e9"})).status_code == 400
    await browser.post("/tools/composed/words/remove", {"sure": "yes"})
    assert (await browser.get("/tools/composed/words")).status_code == 404


async def test_a_broken_tool_is_shown_with_its_reason(console: Console, browser: Browser) -> None:
    await console.composer.compose(TOOL)
    (console.engine.project / ".go-ent" / "composed-tools" / "words.py").write_text(f"def words(: {HOSTILE}")
    page = await browser.get("/tools/composed/words")
    assert page.status_code == 200
    assert "<img src=x" not in page.text
    assert "broken" in (await browser.get("/tools")).text


async def test_searching_and_granting(console: Console, browser: Browser) -> None:
    await console.composer.compose(TOOL)
    assert "/console/tools/of/words" in (await browser.get("/tools?q=how+many+words")).text
    assert "No tool fits" in (await browser.get("/tools?q=zzzzzz")).text
    config = console.engine.project / ".go-ent" / "config.toml"
    before = config.read_text() if config.exists() else ""
    assert "Grant demo.echo?" in (await browser.post("/tools/grant", {"pattern": "demo.echo"})).text
    assert (config.read_text() if config.exists() else "") == before
    assert (await browser.post("/tools/grant", {"pattern": "demo.echo", "sure": "yes"})).status_code == 303
    assert "demo.echo" in config.read_text()
    assert (await browser.post("/tools/revoke", {"pattern": "demo.other", "sure": "yes"})).status_code == 409
    assert (await browser.post("/tools/revoke", {"pattern": "demo.echo", "sure": "yes"})).status_code == 303
    assert "demo.echo" not in config.read_text()
    assert (await browser.post("/tools/grant", {"pattern": HOSTILE, "sure": "yes"})).status_code == 409


async def test_a_client_sees_and_changes_only_what_is_its_own(console: Console) -> None:
    await console.composer.compose(TOOL)
    await console.composer.compose(TOOL.replace("words", "others"))
    browser = await Browser(console).sign_in(Caller("someone", allow=("words",), may_compose=False))
    page = (await browser.get("/tools")).text
    assert "/console/tools/composed/others" not in page
    assert "Servers and APIs" not in page
    for path in ("/tools/composed/others", "/tools/of/others", "/tools/servers/demo"):
        assert (await browser.get(path)).status_code in (403, 409), path
    for path, fields in (
        ("/tools/run/others", {"in.text": "a"}),
        ("/tools/composed/words/rollback", {"version": "1", "sure": "yes"}),
        ("/tools/composed/words/remove", {"sure": "yes"}),
        ("/tools/grant", {"pattern": "x.y", "sure": "yes"}),
        ("/tools/revoke", {"pattern": "x.y", "sure": "yes"}),
    ):
        assert (await browser.post(path, fields)).status_code in (403, 409), path
    assert len(await console.composer.history("words")) == 1
    await browser.close()


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer", "default": 3},
        "ratio": {"type": "number"},
        "loud": {"type": "boolean"},
        "mode": {"enum": ["a", "b"]},
        "rows": {"type": "array"},
        "odd": True,
    },
    "required": ["name", "rows"],
}


def test_a_form_is_made_from_a_schema_and_read_back() -> None:
    fields = {one.name: one for one in fields_of(SCHEMA)}
    kinds = {name: one.kind for name, one in fields.items()}
    assert kinds == {
        "name": "text",
        "count": "integer",
        "ratio": "number",
        "loud": "boolean",
        "mode": "choice",
        "rows": "json",
        "odd": "json",
    }
    assert (fields["count"].default, fields["name"].required, fields["ratio"].required) == ("3", True, False)
    typed = {"in.name": [""], "in.count": ["4"], "in.ratio": ["1"], "in.loud": ["true"], "in.rows": ["[1]"]}
    assert inputs_of(SCHEMA, typed) == {"name": "", "count": 4, "ratio": 1, "loud": True, "rows": [1]}
    assert [one.default for one in fields_of(SCHEMA, {"in.rows": ["[1]"], "in.name": ["x"]})][:2] == ["x", "3"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("count", "1.5"), ("count", "true"), ("ratio", '"1"'), ("loud", "1"), ("rows", "[1"), ("odd", "[" * 100_000)],
)
def test_what_does_not_fit_a_field_is_refused(name: str, text: str) -> None:
    with pytest.raises(Refused, match=f"^{name} must be"):
        inputs_of(SCHEMA, {f"in.{name}": [text]})


def test_a_schema_that_is_none_has_no_fields() -> None:
    assert fields_of({"properties": [1], "required": "x"}) == []
