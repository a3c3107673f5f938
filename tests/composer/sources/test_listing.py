"""What is kept of a server's tools: nothing is started for it, and it never stands in the way of what is true now."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer.catalogue.catalogue import Catalogue
from go_ent.composer.catalogue.grants import Grants
from go_ent.composer.catalogue.scope import Allowance, Scope
from go_ent.composer.catalogue.spec import CallContext, Hints, ToolSpec
from go_ent.composer.errors import BadArguments, ToolNotFound, Unavailable
from go_ent.composer.sources.configured import server_source
from go_ent.composer.sources.listing import (
    FRESH_S,
    MAX_TOOLS,
    Copy,
    Entry,
    Listing,
    ListingStore,
    changes,
    read_copy,
    write_copy,
)
from go_ent.composer.sources.mcp import McpSource
from go_ent.composer.sources.openapi import OpenApiConfig, source_of
from go_ent.sandbox import Sandbox
from tests.composer.sources.test_openapi import DOCUMENT, address
from tests.support.file_server import FileServer, tool

__all__ = ["address"]  # a fixture
NOBODY = CallContext()
TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def entry(name: str, schema: dict[str, Any] | None = None, **other: Any) -> Entry:
    spec = ToolSpec(
        f"x.{name}", other.pop("description", ""), schema or {"type": "object"}, origin="MCP server x", **other
    )
    return Entry(spec, name, name)


def listing(*entries: Entry) -> Listing:
    return Listing.of({one.spec.name: one for one in entries})


class TestCopies:
    def test_what_is_written_is_read_again(self) -> None:
        found = listing(
            entry("a", description="Does a.", hints=Hints(read_only=True)),
            entry("b", {"type": "object", "properties": {"n": NUMBER}}, output_schema={"type": "array"}),
        )
        found = replace(found, notes=("'c' is not offered",), refused={"x.c": "c can't be used"})
        copy = Copy(found, "0" * 32, 12.5, "server 1.2", "https://x", {"x.a": 3.0})
        assert read_copy(write_copy(copy), "x", "MCP server x") == copy

    def test_a_schema_that_many_tools_share_is_there_once(self) -> None:
        schema = {"type": "object", "description": "long " * 1000}
        data = write_copy(Copy(listing(*(entry(f"t{n}", schema) for n in range(100))), "0" * 32, 0.0))
        assert data.count(b"long long") < 2 * 1000
        assert len(read_copy(data, "x", "").listing.entries) == 100

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"[]",
            b"{" * 100_000,
            b'{"version":2}',
            b'{"version":1,"identity":"x","listed":1,"tools":[],"schemas":{}}',
            b'{"version":1,"identity":"%s","listed":1e400,"tools":[],"schemas":{}}' % (b"0" * 32),
            b'{"version":1,"identity":"%s","listed":1,"tools":[],"schemas":{},"more":1}' % (b"0" * 32),
        ],
    )
    def test_what_is_none_is_passed_over(self, tmp_path: Path, data: bytes) -> None:
        store = ListingStore(tmp_path)
        store.folder.mkdir(parents=True)
        (store.folder / "x.json").write_bytes(data)
        assert store.load("x", "") is None

    def test_a_tool_that_names_a_schema_that_is_not_there(self, tmp_path: Path) -> None:
        data = json.loads(write_copy(Copy(listing(entry("a")), "0" * 32, 0.0)))
        data["schemas"] = {}
        store = ListingStore(tmp_path)
        store.folder.mkdir(parents=True)
        (store.folder / "x.json").write_text(json.dumps(data))
        assert store.load("x", "") is None

    def test_it_lies_in_the_users_own_folder_for_nobody_else_to_read(self, tmp_path: Path) -> None:
        store = ListingStore(tmp_path)
        store.save("x", Copy(listing(entry("a")), "0" * 32, 0.0))
        assert store.folder.is_relative_to(os.environ["GO_ENT_DATA"])
        assert (store.folder / "x.json").stat().st_mode & 0o777 == 0o600
        assert ListingStore(tmp_path / "other").load("x", "") is None

    def test_changes_are_of_the_interface_and_not_of_its_words(self) -> None:
        before = listing(entry("same", description="a"), entry("takes"), entry("effects"), entry("gone"))
        now = listing(
            entry("same", description="b"),
            entry("takes", {"type": "object", "properties": {"n": NUMBER}}),
            entry("effects", hints=Hints(destructive=True)),
            entry("new"),
        )
        assert changes(before, now) == {
            "x.gone": "is gone",
            "x.takes": "has changed: what it takes",
            "x.effects": "has changed: what it says of its effects",
            "x.new": "is new",
        }


@pytest.fixture
def server(tmp_path: Path) -> FileServer:
    return FileServer(tmp_path, tool("find", "Finds.", q=TEXT), tool("announce"))


class Sources:
    """The source of one server, opened again and again, as commands do."""

    def __init__(self, server: FileServer, project: Path) -> None:
        self.server, self.project = server, project
        self.opened: list[McpSource] = []

    def open(self, **options: Any) -> McpSource:
        self.opened.append(server_source("x", self.server.config(**options), self.project, ListingStore(self.project)))
        return self.opened[-1]


@pytest.fixture
def sources(server: FileServer, tmp_path: Path) -> Iterator[Sources]:
    found = Sources(server, tmp_path)
    with asyncio.Runner() as runner:  # one that a test leaves open is closed in its own loop by the test
        yield found
        for source in found.opened:
            runner.run(source.close())


def names(specs: list[ToolSpec]) -> list[str]:
    return [spec.name for spec in specs]


class TestServers:
    async def test_it_is_asked_once_and_then_its_copy_is(self, sources: Sources) -> None:
        first = sources.open()
        assert await first.kept_tools() is None
        assert names(await first.tools()) == ["x.find", "x.announce"]
        await first.close()
        again = sources.open()
        assert names(await again.tools()) == names(await again.kept_tools() or []) == ["x.find", "x.announce"]
        copy = await again.copy()
        assert copy is not None
        assert copy.server == "file 1"
        assert sources.server.starts == 1
        assert not again.connected

    async def test_another_command_is_another_server(self, sources: Sources) -> None:
        first = sources.open()
        await first.tools()
        await first.close()
        other = sources.open(env={"A": "b"})
        assert await other.kept_tools() is None
        await other.tools()
        await other.close()
        assert sources.server.starts == 2

    async def test_a_call_goes_by_what_the_server_lists_now_and_a_change_is_told(
        self, sources: Sources, caplog: pytest.LogCaptureFixture
    ) -> None:
        first = sources.open()
        await first.tools()
        await first.close()
        sources.server.say(tool("find", "Finds.", query=TEXT), tool("late"))
        source = sources.open()
        assert names(await source.tools()) == ["x.find", "x.announce"], "nothing was started"
        with pytest.raises(ToolNotFound):
            await source.call("x.announce", {}, NOBODY)
        assert await source.call("x.late", {}, NOBODY) == {}
        assert names(await source.tools()) == ["x.find", "x.late"]
        assert "MCP server x: x.announce is gone; x.find has changed: what it takes" in caplog.text
        await source.close()
        copy = await sources.open().copy()
        assert copy is not None
        assert copy.changed.keys() == {"x.announce", "x.find"}

    async def test_one_that_changes_its_tools_while_it_runs(self, sources: Sources) -> None:
        source = sources.open()
        await source.tools()
        heard = asyncio.Event()
        source.on_change = heard.set
        sources.server.say(tool("announce"), tool("late"))
        await source.call("x.announce", {}, NOBODY)
        await asyncio.wait_for(heard.wait(), 10)
        assert names(await source.tools()) == ["x.announce", "x.late"]
        await source.close()
        assert names(await sources.open().tools()) == ["x.announce", "x.late"]
        assert sources.server.starts == 1

    async def test_refresh_asks_whatever_is_kept_and_says_what_has_changed(
        self, sources: Sources, caplog: pytest.LogCaptureFixture
    ) -> None:
        source = sources.open()
        assert await source.refresh() == {}
        sources.server.say(tool("find", "Finds.", q=TEXT), tool("late"))
        assert await source.refresh() == {"x.announce": "is gone", "x.late": "is new"}
        assert caplog.messages == []  # it was told
        await source.close()

    async def test_one_that_never_answers_is_listed_from_its_copy_and_its_calls_fail(self, sources: Sources) -> None:
        first = sources.open()
        await first.tools()
        await first.close()
        sources.server.say(silent=True)
        source = sources.open(start_timeout_s=0.2)
        assert await source.kept_tools() is not None, "how long it may take is not part of what it is"
        with pytest.raises(Unavailable, match=r"^MCP server x can't be started: no answer within 0\.2 s$"):
            await source.call("x.find", {"q": "a"}, NOBODY)
        await source.close()

    async def test_an_old_copy_is_used_only_if_the_server_can_not_be_asked(self, sources: Sources) -> None:
        first = sources.open()
        await first.tools()
        copy = await first.copy()
        assert copy is not None
        ListingStore(sources.project).save("x", replace(copy, listed=time.time() - 2 * FRESH_S))
        await first.close()
        second = sources.open()
        await second.tools()
        assert sources.server.starts == 2
        ListingStore(sources.project).save("x", replace(copy, listed=time.time() - 2 * FRESH_S))
        await second.close()
        sources.server.say(stderr="no licence\n", exit=3)
        source = sources.open()
        assert names(await source.tools()) == ["x.find", "x.announce"]
        assert source.notes[0].startswith("its tools are those of 14 days ago: MCP server x can't be started: ")
        assert source.notes[0].endswith("exit code 3; it last wrote: no licence")
        await source.close()

    async def test_five_thousand_tools_and_one_whose_schema_is_wrong(self, sources: Sources) -> None:
        wrong = {"name": "wrong", "inputSchema": {"type": "array"}}
        sources.server.say(wrong, *(tool(f"t{n}") for n in range(5000)))
        source = sources.open()
        assert len(await source.tools()) == MAX_TOOLS
        await source.close()
        again = sources.open()
        assert len(await again.tools()) == MAX_TOOLS
        assert again.notes[0] == f"only the first {MAX_TOOLS} of its tools are offered"
        assert "wrong" in again.notes[1]
        assert again.why_not("x.wrong") is not None
        assert sources.server.starts == 1


class TestCatalogue:
    async def test_a_call_whose_arguments_fit_only_what_was_listed_before(
        self, sources: Sources, shared_box: Sandbox
    ) -> None:
        first = sources.open()
        await first.tools()
        await first.close()
        sources.server.say(tool("find", "Finds.", query=TEXT))
        source = sources.open()
        catalogue, grants = Catalogue([source]), Grants(["x.*"])
        assert names(await catalogue.search("find", grants)) == ["x.find"]
        assert sources.server.starts == 1
        scope = Scope(grants, Allowance(shared_box.limits, shared_box), "run")
        with pytest.raises(BadArguments, match="which have changed since it was last listed, do not fit"):
            await catalogue.call("x.find", {"q": "a"}, scope)
        assert await catalogue.call("x.find", {"query": "a"}, scope) == {"query": "a"}
        await source.close()

    async def test_a_tool_that_has_become_destructive_needs_approval_at_once(
        self, sources: Sources, shared_box: Sandbox
    ) -> None:
        from go_ent.sandbox import ApprovalRequired

        first = sources.open()
        await first.tools()
        await first.close()
        sources.server.say({**tool("find", q=TEXT), "annotations": {"destructiveHint": True}})
        source = sources.open()
        grants = Grants(["x.*"])
        scope = Scope(grants, Allowance(shared_box.limits, shared_box), "run")
        with pytest.raises(ApprovalRequired):
            await Catalogue([source]).call("x.find", {"q": "a"}, scope)
        await source.close()

    async def test_tools_that_are_not_granted_are_found_where_nothing_has_to_be_started(self, sources: Sources) -> None:
        first = sources.open()
        await first.tools()
        await first.close()
        source = sources.open()
        catalogue, grants = Catalogue([source]), Grants(["x.announce"])
        assert names(await catalogue.tools(grants)) == ["x.announce"]
        assert names(await catalogue.tools(grants, others=True)) == ["x.announce", "x.find"]
        assert names(await catalogue.search("find", grants)) == []
        assert names(await catalogue.search("find", Grants(), others=True)) == ["x.find"]
        assert sources.server.starts == 1


class TestApis:
    async def test_calls_need_the_copy_alone(self, tmp_path: Path, address: str) -> None:
        document = tmp_path / "api.json"
        document.write_text(json.dumps({**DOCUMENT, "servers": [{"url": address}]}))
        config, store = OpenApiConfig(document=document), ListingStore(tmp_path)
        first = source_of("api", config, store=store)
        listed = await first.tools()
        assert await first.call("api.get_item", {"id": 3}, NOBODY) == {"id": 3, "name": "it"}
        await first.close()

        source = source_of("api", config, store=store)
        assert await source.tools() == listed
        assert await source.call("api.add_item", {"id": 4, "name": "n"}, NOBODY) == {"id": 4, "name": "n"}
        assert source.starts == 0
        await source.close()

    async def test_another_document_is_another_api(self, tmp_path: Path, address: str) -> None:
        document = tmp_path / "api.json"
        document.write_text(json.dumps({**DOCUMENT, "servers": [{"url": address}]}))
        config, store = OpenApiConfig(document=document), ListingStore(tmp_path)
        first = source_of("api", config, store=store)
        await first.tools()
        await first.close()
        paths = {"/items": DOCUMENT["paths"]["/items"]}
        document.write_text(json.dumps({**DOCUMENT, "servers": [{"url": address}], "paths": paths}))
        source = source_of("api", config, store=store)
        assert await source.kept_tools() is None
        assert names(await source.tools()) == ["api.list_items", "api.add_item"]
        await source.close()
