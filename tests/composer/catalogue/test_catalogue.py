"""One catalogue of tools from many sources."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Any

import pytest

from go_ent.composer import (
    BadArguments,
    BadResult,
    CallError,
    Catalogue,
    Collision,
    FunctionSource,
    Grants,
    Hints,
    NotGranted,
    ToolNotFound,
    ToolSpec,
    Unavailable,
)
from go_ent.composer.catalogue.catalogue import show
from go_ent.composer.catalogue.scope import Allowance, NotedCalls, Scope
from go_ent.composer.catalogue.spec import CallContext, Schema
from go_ent.sandbox import ApprovalRequired, Limits, Sandbox, ToolError

ALL = Grants(["*"])


class Fake:
    """A source of a test's own: real in all that a catalogue sees of it."""

    local = False

    def __init__(self, namespace: str, tools: dict[str, Any], *, dead: str | None = None, **spec: Any) -> None:
        self.namespace = namespace
        self.origin = f"server {namespace}"
        self.dead = dead
        self.asked = 0
        self._tools = tools
        prefix = f"{namespace}." if namespace else ""
        schema: Schema = {"type": "object"}
        self._specs = [
            ToolSpec(
                f"{prefix}{name}",
                f"Does {name}.",
                spec.get("input", schema),
                spec.get("output"),
                spec.get("hints", Hints()),
                self.origin,
            )
            for name in tools
        ]

    async def tools(self) -> list[ToolSpec]:
        self.asked += 1
        if self.dead is not None:
            raise Unavailable(self.dead)
        return self._specs

    async def call(self, name: str, arguments: dict[str, Any], context: CallContext) -> Any:
        value = self._tools[name.rpartition(".")[2]]
        if isinstance(value, BaseException):
            raise value
        return value

    async def close(self) -> None:
        pass


def scope(grants: Grants = ALL, **options: Any) -> Scope:
    limits = options.pop("limits", Limits())
    return Scope(grants, Allowance(limits, Sandbox()), "run", **options)


class TestNames:
    def test_two_sources_of_one_namespace(self) -> None:
        with pytest.raises(Collision, match="'a': server a and server a"):
            Catalogue([Fake("a", {}), Fake("a", {})])

    async def test_a_collision_names_both_and_stops_nobody_else(self) -> None:
        catalogue = Catalogue([FunctionSource({"github": len_of, "fine": len_of}), Fake("github", {"search": 1})])
        assert [spec.name for spec in await catalogue.tools(ALL)] == ["fine", "github.search"]
        with pytest.raises(
            Collision, match=r"'github': function github in .* and server github, where it is a namespace"
        ):
            await catalogue.call("github", {}, scope())
        assert "server github" in catalogue.problems["github"]

    async def test_two_tools_of_one_name(self) -> None:
        catalogue = Catalogue([FunctionSource({"a": len_of}), Fake("", {"a": 1, "b": 2})])
        with pytest.raises(Collision, match=r"function a in .* and server"):
            await catalogue.call("a", {}, scope())
        assert await catalogue.call("b", {}, scope()) == 2


def len_of(text: str) -> int:
    """The length of a text."""
    return len(text)


class TestFinding:
    async def test_only_granted_tools_are_shown(self) -> None:
        catalogue = Catalogue([Fake("a", {"find_secret": 1, "find_open": 2}), Fake("b", {"find_more": 3})])
        grants = Grants(["a.find_open"])
        assert [spec.name for spec in await catalogue.tools(grants)] == ["a.find_open"]
        assert [spec.name for spec in await catalogue.search("find", grants)] == ["a.find_open"]
        assert [spec.name for spec in catalogue.near("a.find_opn", grants)] == ["a.find_open"]
        assert catalogue.known_names(grants) == ["a.find_open"]
        with pytest.raises(NotGranted, match=r"a\.find_secret is not granted"):
            await catalogue.get("a.find_secret", grants)

    async def test_a_dead_source_does_not_stop_the_rest(self) -> None:
        dead = Fake("dead", {"x": 1}, dead="it exited with code 3")
        catalogue = Catalogue([dead, Fake("live", {"y": 2})])
        assert [spec.name for spec in await catalogue.tools(ALL)] == ["live.y"]
        assert catalogue.problems == {"server dead": "it exited with code 3"}
        with pytest.raises(Unavailable, match="server dead is not available: it exited with code 3"):
            await catalogue.call("dead.x", {}, scope())
        assert await catalogue.call("live.y", {}, scope()) == 2
        dead.dead = None  # it is back
        assert await catalogue.call("dead.x", {}, scope()) == 1
        assert catalogue.problems == {}

    async def test_one_that_hangs_does_not_stop_the_rest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("go_ent.composer.catalogue.catalogue.PATIENCE_S", 0.05)

        awake = asyncio.Event()

        class Slow(Fake):
            async def tools(self) -> list[ToolSpec]:
                await awake.wait()
                return await super().tools()

        slow = Slow("slow", {"x": 1})
        catalogue = Catalogue([slow, Fake("live", {"y": 2})])
        assert [spec.name for spec in await catalogue.search("does", ALL)] == ["live.y"]
        assert "no answer within" in catalogue.problems["server slow"]
        awake.set()  # it goes on in the background, and is there when it is done
        assert [spec.name for spec in await catalogue.tools(ALL)] == ["live.y", "slow.x"]
        assert slow.asked == 1
        await catalogue.close()

    async def test_one_that_is_broken_does_not_stop_the_rest(self) -> None:
        class Broken(Fake):
            async def tools(self) -> list[ToolSpec]:
                raise RuntimeError("a bug")

            async def close(self) -> None:
                raise RuntimeError("another")

        catalogue = Catalogue([Broken("broken", {}), Fake("live", {"y": 2})])
        assert [spec.name for spec in await catalogue.tools(ALL)] == ["live.y"]
        assert catalogue.problems["server broken"].startswith("RuntimeError")
        await catalogue.close()

    async def test_a_namespace_is_looked_at_before_the_limit(self) -> None:
        catalogue = Catalogue([Fake("a", {f"find_{n}": n for n in range(30)}), Fake("zz", {"find_me": 1})])
        assert [spec.name for spec in await catalogue.search("find", ALL, namespace="zz", limit=3)] == ["zz.find_me"]

    async def test_nothing_is_made_again_when_nothing_changed(self) -> None:
        catalogue = Catalogue([FunctionSource([len_of])])
        await catalogue.search("length", ALL)
        index = catalogue._index
        await catalogue.search("length", ALL)
        assert catalogue._index is index

    async def test_only_the_source_that_is_needed_is_asked(self) -> None:
        one, two = Fake("one", {"x": 1}), Fake("two", {"y": 2})
        catalogue = Catalogue([one, two])
        assert await catalogue.call("one.x", {}, scope()) == 1
        await catalogue.tools(Grants(["one.*"]))
        assert two.asked == 0

    async def test_unknown_tools(self) -> None:
        catalogue = Catalogue([Fake("one", {"x": 1})])
        with pytest.raises(ToolNotFound, match=r"there is no tool one\.nope$"):
            await catalogue.call("one.nope", {}, scope())
        with pytest.raises(ToolNotFound, match=r"there is no tool three\.x; did you mean one\.x\?$"):
            await catalogue.call("three.x", {}, scope())

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("files.raed", "there is no tool files.raed; did you mean files.read?"),
            ("file.read", "there is no tool file.read; did you mean files.read?"),
            ("file.nope", "there is no tool file.nope; did you mean the namespace files?"),
            ("files.nope", "there is no tool files.nope"),
            ("files.delet", "there is no tool files.delet; did you mean files.delete?"),
            ("files.dele", "there is no tool files.dele"),
            ("other.delete", "there is no tool other.delete"),
            ("other.thing", "there is no tool other.thing"),
            ("web.post", "web.post is not granted here"),
            ("web.psot", "there is no tool web.psot"),
            ("shop.anything", "shop.anything is not granted here"),
        ],
    )
    async def test_what_may_have_been_meant_is_close_and_destroys_nothing(self, name: str, expected: str) -> None:
        files, web, shop = (
            Fake("files", {"read": 1, "rename": 2}),
            Fake("web", {"get": 1, "post": 2}),
            Fake("shop", {"x": 1}),
        )
        files._specs += Fake("files", {"delete": 1}, hints=Hints(destructive=True))._specs
        catalogue = Catalogue([files, web, shop])
        with pytest.raises((NotGranted, ToolNotFound)) as caught:
            await catalogue.get(name, Grants(["files.*", "web.get"]))
        assert (str(caught.value), shop.asked) == (expected, 0)

    async def test_a_project_says_where_a_tool_is_granted(self) -> None:
        catalogue = Catalogue([Fake("web", {"get": 1, "post": 2})])
        catalogue.project_grants = project = Grants(["web.get"])
        with pytest.raises(NotGranted, match=r"here: go-ent grant adds it to \[grants\] allow in .*config\.toml$"):
            await catalogue.get("web.post", project)
        with pytest.raises(NotGranted, match=r"^web\.get is not granted here$"):  # it is the caller who has narrowed it
            await catalogue.get("web.get", project.narrowed(["web.post"]))

    def test_details(self) -> None:
        spec = ToolSpec(
            "a.b",
            "Does it.",
            {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            {"type": "string"},
        )
        assert show([spec], "brief") == "a.b(n: int) -> str — Does it."
        assert "async def b(self, n: int) -> str:" in show([spec], "stubs")
        assert '"input_schema": {"type": "object"' in show([spec], "full")

    async def test_a_learned_schema_is_shown_and_not_enforced(self) -> None:
        catalogue = Catalogue([Fake("a", {"x": {"n": 1}})])
        await catalogue.load()
        catalogue.learn("a.x", {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]})
        spec = await catalogue.find("a.x")
        assert spec.learned
        assert "learned from results" in show([spec], "stubs")
        assert await catalogue.call("a.x", {}, scope()) == {"n": 1}


class TestCalling:
    async def test_checked_before_and_after(self) -> None:
        schema = {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
            "additionalProperties": False,
        }

        catalogue = Catalogue([Fake("a", {"good": 5, "bad": "five"}, input=schema, output={"type": "integer"})])
        calls = NotedCalls()
        here = replace(scope(), calls=calls)
        assert await catalogue.call("a.good", {"n": 1}, here) == 5
        with pytest.raises(BadArguments, match='its arguments do not fit: n: "x" is not of type "integer"'):
            await catalogue.call("a.good", {"n": "x"}, here)
        with pytest.raises(BadResult, match='its result does not fit: "five" is not of type "integer"'):
            await catalogue.call("a.bad", {"n": 1}, here)
        assert [(call.name, call.error is None) for call in calls] == [
            ("a.good", True),
            ("a.good", False),
            ("a.bad", False),
        ]

    async def test_failures(self) -> None:
        tools = {"said": CallError("no"), "tool": ToolError("not so"), "ours": RuntimeError("secret path /x/y")}
        catalogue = Catalogue([Fake("a", tools)])
        with pytest.raises(CallError, match=r"^no$"):
            await catalogue.call("a.said", {}, scope())
        with pytest.raises(ToolError, match="not so"):
            await catalogue.call("a.tool", {}, scope())
        with pytest.raises(CallError) as caught:
            await catalogue.call("a.ours", {}, scope())
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize(("grants", "hints"), [(Grants(["*"], ["a.*"]), Hints()), (ALL, Hints(destructive=True))])
    async def test_approval(self, grants: Grants, hints: Hints) -> None:
        catalogue = Catalogue([Fake("a", {"drop": "gone"}, hints=hints)])
        with pytest.raises(ApprovalRequired):
            await catalogue.call("a.drop", {}, scope(grants))
        asked: list[str] = []

        async def approver(spec: ToolSpec, arguments: dict[str, Any]) -> bool | None:
            asked.append(spec.name)
            return {"yes": True, "no": False}.get(arguments["answer"])

        assert await catalogue.call("a.drop", {"answer": "yes"}, scope(grants, approver=approver)) == "gone"
        with pytest.raises(CallError, match="not approved"):
            await catalogue.call("a.drop", {"answer": "no"}, scope(grants, approver=approver))
        with pytest.raises(ApprovalRequired):
            await catalogue.call("a.drop", {"answer": "later"}, scope(grants, approver=approver))
        assert asked == ["a.drop"] * 3

    async def test_a_read_only_hint_widens_nothing(self) -> None:
        catalogue = Catalogue([Fake("a", {"x": 1}, hints=Hints(read_only=True, destructive=False))])
        with pytest.raises(NotGranted):
            await catalogue.call("a.x", {}, scope(Grants()))
        with pytest.raises(ApprovalRequired):
            await catalogue.call("a.x", {}, scope(Grants(["*"], ["a.x"])))

    async def test_calls_are_counted_over_the_whole_tree(self) -> None:
        catalogue = Catalogue([Fake("a", {"x": 1})])
        here = scope(limits=Limits(max_tool_calls=2))
        inner = here.inside("t", ["*"], "r2")
        await catalogue.call("a.x", {}, here)
        await catalogue.call("a.x", {}, inner)
        with pytest.raises(CallError, match="max_tool_calls"):
            await catalogue.call("a.x", {}, here)


class TestHostileSchemas:
    @pytest.mark.parametrize(
        "schema",
        [
            {"$ref": "http://127.0.0.1:1/schema"},
            {"$ref": "file:///etc/passwd"},
            {"type": "no such type"},
            {"type": 5},
            {"pattern": "("},
            {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
            {"$ref": "#/nowhere"},
        ],
    )
    async def test_nothing_is_fetched_and_nothing_breaks(self, schema: Schema) -> None:
        catalogue = Catalogue([Fake("a", {"x": 1}, input=schema)])
        with contextlib.suppress(BadArguments):
            assert await catalogue.call("a.x", {"n": 1}, scope()) == 1

    async def test_a_pattern_can_not_run_for_ever(self) -> None:
        schema = {"type": "object", "properties": {"s": {"type": "string", "pattern": "^(a|aa)+(?=b)$"}}}
        catalogue = Catalogue([Fake("a", {"x": 1}, input=schema)])
        with pytest.raises(BadArguments):
            await catalogue.call("a.x", {"s": "a" * 5000 + "!"}, scope())
