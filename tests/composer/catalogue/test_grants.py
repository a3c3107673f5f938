"""Nothing is callable unless granted, and a grant can only be narrowed."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from go_ent.composer import BadName, Catalogue, CodeMode, FunctionSource, Grants
from go_ent.composer.catalogue.grants import unmatched
from go_ent.sandbox import Sandbox
from tests.support.rows import each

NAMES = ["a", "b", "ns.a", "ns.b", "ns.deep.a", "other.a", "nsx.a"]
PATTERNS = [*NAMES, "*", "ns.*", "ns.deep.*", "other.*"]


class TestPatterns:
    def test_nothing_by_default(self) -> None:
        assert not any(Grants().allows(name) for name in NAMES)

    @pytest.mark.parametrize(
        ("pattern", "granted"),
        [
            ("*", NAMES),
            ("ns.*", ["ns.a", "ns.b", "ns.deep.a"]),
            ("ns.deep.*", ["ns.deep.a"]),
            ("ns.a", ["ns.a"]),
            ("a", ["a"]),
            ("ns", []),
        ],
    )
    def test_each(self, pattern: str, granted: list[str]) -> None:
        assert [name for name in NAMES if Grants([pattern]).allows(name)] == granted

    def test_what_starts_programs_or_spends_money_must_be_named(self) -> None:
        for grants in (Grants(["*"]), Grants(["engine.*"]).narrowed(["*"])):
            assert not grants.allows("engine.execute")
            assert not grants.may_reach("engine")
        assert Grants(["*", "engine.execute"]).allows("engine.execute")
        assert Grants(["engine.*"]).may_reach("engine")
        assert Grants(["engine.*"], ["*"]).needs_approval("engine.execute"), "approval is asked for everything"
        assert Grants(["*"]).allows("engines.execute")

    @each("pattern", ["", ".", "a*", "*.a", "ns.*.a", "**", "a b", "a\n", "ns.", "../a", "ns.?", "é", "a" * 400])
    def test_what_is_no_pattern(self, pattern: str) -> None:
        with pytest.raises(BadName, match="grants nothing"):
            Grants([pattern])

    def test_one_text_is_not_a_list(self) -> None:
        with pytest.raises(BadName, match="not one text"):
            Grants("github")

    def test_the_top_level_is_what_has_no_namespace(self) -> None:
        assert [name for name in NAMES if Grants(top_level=True).allows(name)] == ["a", "b"]

    @given(st.lists(st.lists(st.sampled_from(PATTERNS), max_size=3), min_size=1, max_size=4), st.booleans())
    def test_narrowing_never_widens(self, layers: list[list[str]], top_level: bool) -> None:
        grants = Grants(layers[0], top_level=top_level)
        for layer in layers[1:]:
            narrower = grants.narrowed(layer)
            assert {n for n in NAMES if narrower.allows(n)} <= {n for n in NAMES if grants.allows(n)}
            assert {n for n in NAMES if narrower.allows(n)} <= {n for n in NAMES if Grants(layer).allows(n)}
            grants = narrower
        for namespace in ("", "ns", "ns.deep", "other", "nsx"):
            if any(grants.allows(name) for name in NAMES if name.rpartition(".")[0] == namespace):
                assert grants.may_reach(namespace)

    @given(st.lists(st.sampled_from(PATTERNS), max_size=3), st.lists(st.sampled_from(PATTERNS), max_size=3))
    def test_what_needs_approval_goes_on_needing_it(self, first: list[str], second: list[str]) -> None:
        grants = Grants(["*"], first)
        narrower = grants.narrowed(["*"], second)
        assert all(narrower.needs_approval(name) for name in NAMES if grants.needs_approval(name))


class TestUnmatched:
    KNOWN: ClassVar = {"": ["triage"], "pets": ["pets.list_pets", "pets.get_pet"], "empty": [], "unknown": None}

    def test_what_fits_a_tool_or_may_fit_one_is_not_told(self) -> None:
        assert unmatched(["*", "pets.*", "pets.get_pet", "triage", "unknown.x", "unknown.*"], self.KNOWN) == []

    def test_what_fits_none_is_told_with_what_was_meant(self) -> None:
        assert unmatched(["pets.list_pet", "pet.*", "empty.*", "triag", "nothing.at_all", "pet.*"], self.KNOWN) == [
            "pets.list_pet: there is no tool pets.list_pet; did you mean pets.list_pets?",
            "pet.*: there is no source pet; did you mean pets?",
            "empty.*: empty has no tools",
            "triag: there is no composed tool triag; did you mean triage?",
            "nothing.at_all: there is no source nothing",
        ]


REACH = """
found = []
for name in names:
    target = tools
    for part in name.split("."):
        target = target[part]
    try:
        found.append([name, await target()])
    except ToolError as error:
        found.append([name, error.kind])
found
"""


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PATTERNS), max_size=3), st.lists(st.sampled_from(PATTERNS), max_size=3) | st.none())
def test_no_call_outside_the_grant_ever(shared_box: Sandbox, project: list[str], run: list[str] | None) -> None:
    """From inside a guest, every tool there is: those that ran are those that were granted."""
    ran: list[str] = []

    def make(name: str) -> object:
        def function() -> str:
            ran.append(name)
            return name

        return function

    names = [name for name in NAMES if "deep" not in name]
    functions = {name: make(name) for name in names if "." not in name}
    spaces = {
        space: {n.partition(".")[2]: make(n) for n in names if n.startswith(f"{space}.")}
        for space in ("ns", "other", "nsx")
    }

    async def main() -> None:
        sources = [FunctionSource(functions), *(FunctionSource(tools, space) for space, tools in spaces.items())]
        code = CodeMode(Catalogue(sources), shared_box, grants=Grants(project))
        result = (await code.execute(REACH, {"names": names}, grants=run)).result
        granted = [name for name in names if Grants(project).allows(name) and (run is None or Grants(run).allows(name))]
        assert ran == granted
        assert result == [[name, name if name in granted else "NotGranted"] for name in names]

    asyncio.run(main())
