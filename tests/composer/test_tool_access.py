"""Tools as attributes of a composer."""

from __future__ import annotations

import copy

import pytest

from go_ent.composer import BadArguments, ToolNotFound
from go_ent.composer.tool_access import ToolPath
from tests.composer.conftest import DOUBLE, Open


def add(a: int, b: int = 1) -> int:
    """Add two numbers. And more."""
    return a + b


async def test_a_tool_is_an_attribute_to_await(open_composer: Open) -> None:
    async with open_composer(tools={"math": {"add": add}, "add": add}) as composer:
        await composer.compose(DOUBLE)
        tools = composer.tools
        assert await tools.double(n=4) == await tools.double(4) == 8
        assert await tools.add(1, b=5) == 6
        assert await tools["add"](a=1) == 2
        assert [tool.name for tool, _ in await tools()] == ["double"]
        assert dir(tools) == ["add", "double"]
        assert repr(tools.double) == "double(n: int) -> int — Twice n."


async def test_what_does_not_fit_is_refused(open_composer: Open) -> None:
    async with open_composer(tools={"add": add}) as composer:
        with pytest.raises(BadArguments, match=r"add takes 2 arguments \(a, b\); 3 were given"):
            await composer.tools.add(1, 2, 3)
        with pytest.raises(BadArguments, match="add: a was given twice"):
            await composer.tools.add(1, a=2)
        with pytest.raises(ToolNotFound, match="did you mean add"):
            await composer.tools.ad(1)


async def test_names_that_programs_probe_are_no_tools(open_composer: Open) -> None:
    async with open_composer() as composer:
        for name in ("_repr_mimebundle_", "__deepcopy__", "_ipython_canary_method_should_not_exist_"):
            with pytest.raises(AttributeError):
                getattr(composer.tools, name)
        assert isinstance(copy.copy(composer.tools.a.b), ToolPath)


async def test_a_notebook_shows_the_tools(open_composer: Open) -> None:
    async with open_composer(tools={"add": add}) as composer:
        await composer.catalogue.load_known()
        assert "<td" in composer.tools._repr_html_()
        assert "Add two numbers.</td>" in composer.tools._repr_html_()
        assert "async def add(self, a: int, b: int = 1)" in composer.tools.add._repr_html_()
