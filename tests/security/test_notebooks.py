"""Hostile text on its way into a notebook's page, a shell's completion or a page of Markdown."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer import Grants
from go_ent.composer.catalogue.spec import ToolSpec
from go_ent.composer.catalogue.tool_page import page
from go_ent.composer.composer import Composer
from go_ent.engine.cli.commands.recorded import guests_for
from go_ent.engine.cli.commands.shell.completion import offers
from go_ent.engine.cli.commands.shell.session import ShellSession
from go_ent.sandbox import Run, RunError, Sandbox
from tests.security.corpus import attack

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e\x1b]0;x\x07&lt;"
OURS = {"p", "b", "pre", "table", "thead", "tbody", "tr", "th", "td"}


class Page(HTMLParser):
    """What a browser would see: its elements, their attributes, its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}


def check(html: str) -> None:
    page = Page(html)
    assert page.elements <= OURS
    assert page.attributes <= {"style"}
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", html)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"result": EVIL}, marks=attack("bridge", "markup as a result that a notebook shows")),
        pytest.param(
            {"result": [{EVIL: EVIL, "n": {EVIL: 1}}]},
            marks=attack("bridge", "markup as the keys of a notebook's table"),
        ),
        pytest.param({"stdout": EVIL}, marks=attack("bridge", "markup as output that a notebook shows")),
        pytest.param(
            {"status": "error", "error": RunError(kind=EVIL, message=EVIL, hint=EVIL)},
            marks=attack("bridge", "markup as an error that a notebook shows"),
        ),
        pytest.param({"files": {EVIL: b"x"}}, marks=attack("bridge", "markup as a file's name in a notebook")),
    ],
)
def test_a_run_in_a_notebook_is_text_alone(parts: dict[str, Any]) -> None:
    check(Run.model_construct(id="x", **{"status": "completed", **parts})._repr_html_())


@attack("bridge", "a result without end in a notebook's page")
def test_a_long_result_does_not_fill_the_page() -> None:
    run = Run(id="x", status="completed", result=[{"a": "x" * 1000}] * 100_000, stdout="y" * 10**6)
    assert len(run._repr_html_()) < 100_000


class Hostile:
    """A source whose one tool is named and described by somebody hostile."""

    namespace = "evil"
    local = True
    origin = "evil"

    async def tools(self) -> list[ToolSpec]:
        schema = {"type": "object", "properties": {EVIL: {"type": "string", "description": EVIL}}}
        return [ToolSpec("evil.t", EVIL, schema, origin=self.origin)]

    async def call(self, *_: Any) -> Any: ...

    async def close(self) -> None: ...


@attack("upstream", "markup in a tool's words, shown by a notebook")
async def test_tools_in_a_notebook_are_text_alone(project: Path, shared_box: Sandbox) -> None:
    async with Composer.open(project, box=shared_box, sources=[Hostile()]) as composer:
        await composer.catalogue.load_known()
        check(composer.tools._repr_html_())
        check(composer.tools.evil._repr_html_())
        check(composer.tools.evil.t._repr_html_())
        assert not re.search("[\x1b\u202e\n]", repr(composer.tools.evil.t))


@attack("upstream", "control characters in names and words that a shell's completion shows")
async def test_completion_offers_plain_names_and_words(project: Path, shared_box: Sandbox) -> None:
    async with Composer.open(project, box=shared_box, sources=[Hostile()]) as composer, guests_for(composer) as guests:
        composer.grants = Grants.everything()
        await composer.catalogue.load_known()
        shell = ShellSession(composer, guests, None)
        found = [offer for before in ("tools.", "tools.evil.", "tools.evil.t(") for offer in offers(shell, before)]
        assert [offer.text for offer in found if offer.text.startswith(("evil", "t"))] == ["evil.", "t"]
        assert all((offer.text + offer.about).isprintable() for offer in found)


@attack("upstream", "markup in a tool's words, on a page of Markdown")
def test_a_page_of_tools_is_text_alone() -> None:
    words = f"- [x](javascript:alert(1)) **b** `{EVIL}`\n\n# heading\n\n1. ```\n| a | b |"
    schema = {"type": "object", "properties": {"a|b`": {"type": "string", "description": words}}}
    spec = ToolSpec("evil.t", words, schema, origin=words)
    made = page(words, [(spec, [{"inputs": {"a": "```\n# x"}, "result": "```"}])], [spec])
    assert "<" not in made.replace("<br>", "")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", made)
    assert not re.search(r"(?m)(?<!\\)\[x(?<!\\)\]", made)
    headings = [line for line in made.splitlines() if line.startswith("#")]
    assert [line.split()[0] for line in headings] == ["#", "##", "##"]
    assert not [line for line in made.splitlines() if line.startswith(("- ", "1. "))]
