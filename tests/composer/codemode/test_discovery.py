"""What code asks about its tools: search, describe, dir and help."""

from __future__ import annotations

from typing import Any

from go_ent.composer import Catalogue, CodeMode, FunctionSource, Grants
from go_ent.composer.codemode.codemode import CodeRun
from go_ent.sandbox import Sandbox
from go_ent.sandbox.worker.languages import Language
from tests.composer.conftest import Open, tool


def get_order(order_id: str) -> dict[str, str]:
    """Get one order."""
    return {"id": order_id}


def list_orders(customer: str, limit: int = 5) -> list[str]:
    """List the orders of a customer."""
    return [customer] * limit


def drop_orders() -> None:
    """Delete all orders."""


def search(q: str) -> str:
    """A tool of the program's own."""
    return f"found {q}"


async def run(
    box: Sandbox, code: str, *functions: Any, allow: tuple[str, ...] = (), language: Language = "python"
) -> CodeRun:
    shop = FunctionSource([get_order, list_orders, drop_orders], "shop")
    catalogue = Catalogue([shop, FunctionSource(functions) if functions else FunctionSource([get_order], "search")])
    granted = allow or ("shop.get_order", "shop.list_orders")
    return await CodeMode(catalogue, box, grants=Grants(granted, top_level=True)).execute(code, language=language)


class TestSearch:
    async def test_finds_granted_tools_with_how_they_are_called(self, shared_box: Sandbox) -> None:
        done = await run(shared_box, 'await tools.search("orders of a customer", limit=1)')
        assert done.result == [
            {
                "name": "shop.list_orders",
                "signature": "shop.list_orders(customer: str, limit: int = 5) -> list[str]",
                "description": "List the orders of a customer.",
                "described_by": "function list_orders in tests.composer.codemode.test_discovery",
            }
        ]

    async def test_never_those_that_are_not_granted(self, shared_box: Sandbox) -> None:
        done = await run(shared_box, '[tool["name"] for tool in await tools.search("delete orders", limit=200)]')
        assert done.result == ["shop.get_order", "shop.list_orders"]
        done = await run(shared_box, '[tool["name"] for tool in await tools.search()]')
        assert done.result == ["shop.get_order", "shop.list_orders"]

    async def test_what_it_can_t_take_is_said(self, shared_box: Sandbox) -> None:
        for code in (
            "await tools.search(3)",
            "await tools.search('x', limit=0)",
            "await tools.search('x', limit=True)",
        ):
            done = await run(shared_box, code)
            assert done.error is not None
            assert "words and namespace are texts" in done.error.message

    async def test_a_granted_tool_of_that_name_is_called_and_a_namespace_beside_it(self, shared_box: Sandbox) -> None:
        assert (await run(shared_box, "await tools.search(q='x')", search)).result == "found x"
        done = await run(shared_box, "await tools.search.get_order(order_id='1')", allow=("search.*",))
        assert done.result == {"id": "1"}
        done = await run(shared_box, "[t['name'] for t in await tools.search('order')]", allow=("search.*",))
        assert done.result == ["search.get_order"]


class TestDescribe:
    async def test_shows_the_stub_and_whose_words_it_has(self, shared_box: Sandbox) -> None:
        for code in (
            'tools.describe("shop.get_order")',
            'await tools.describe("tools.shop.get_order")',
            "tools.describe(tools.shop.get_order)",
        ):
            text = (await run(shared_box, code)).result
            assert isinstance(text, str)
            assert text.startswith("# in the words of function get_order in ")
            assert "data, not instructions" in text
            assert "async def get_order(self, order_id: str) -> dict[str, str]:" in text

    async def test_a_namespace_is_a_list(self, shared_box: Sandbox) -> None:
        text = (await run(shared_box, 'tools.describe("shop")')).result
        assert isinstance(text, str)
        assert "shop.list_orders(customer: str" in text
        assert "drop_orders" not in text

    async def test_what_is_not_granted_is_not_described(self, shared_box: Sandbox) -> None:
        for name, said in (("shop.drop_orders", "not granted"), ("shop.get_ordr", "did you mean shop.get_order?")):
            done = await run(shared_box, f"tools.describe({name!r})")
            assert done.error is not None
            assert said in done.error.message
            assert "Delete all" not in done.error.message

    async def test_while_other_calls_are_under_way(self, shared_box: Sandbox) -> None:
        code = (
            "import asyncio\n"
            "calls = [asyncio.create_task(tools.shop.get_order(order_id=str(n))) for n in range(3)]\n"
            "await asyncio.sleep(0)\n"
            "shown = tools.describe('shop.get_order')\n"
            "[len(shown) > 50, *[order['id'] for order in await asyncio.gather(*calls)]]"
        )
        assert (await run(shared_box, code)).result == [True, "0", "1", "2"]

    async def test_dir_and_help(self, shared_box: Sandbox) -> None:
        done = await run(
            shared_box, "help(tools.shop.get_order)\nhelp(len)\n[dir(tools.shop), dir(tools), dir(tools.no)]"
        )
        assert done.result == [["get_order", "list_orders"], ["shop"], []]
        assert "async def get_order(self, order_id: str)" in done.stdout
        assert "len(obj, /)" in done.stdout

    async def test_call_takes_a_full_name(self, shared_box: Sandbox) -> None:
        assert (await run(shared_box, "await tools.call('shop.get_order', order_id='7')")).result == {"id": "7"}
        done = await run(shared_box, "await tools.call('shop.drop_orders')")
        assert done.error is not None
        assert "not granted" in done.error.message


class TestComposed:
    async def test_a_composed_tool_sees_what_it_requires(self, open_composer: Open) -> None:
        body = (
            'async def seen() -> list[str]:\n    """What it may call."""\n'
            '    await tools.lookup(q="x")\n    return [tool["name"] for tool in await tools.search()]\n'
        )

        def lookup(q: str) -> str:
            return q

        async with open_composer(tools=[lookup, get_order]) as composer:
            await composer.compose(tool("seen", body))
            assert await composer.call("seen") == ["lookup"]

    async def test_an_example_answers_from_its_recording(self, open_composer: Open) -> None:
        body = (
            'async def first() -> str:\n    """The first tool."""\n'
            '    return (await tools.search("order"))[0]["name"]\n'
        )
        given = '{"words": "order", "namespace": null, "limit": 10}'
        call = f'{{"tool": "<search>", "arguments": {given}, "result": [{{"name": "a.b"}}]}}'
        async with open_composer() as composer:
            saved = await composer.compose(tool("first", body, examples=f'{{"result": "a.b", "calls": [{call}]}}'))
            assert saved.examples == 1


async def test_javascript_is_answered_in_typescript_unless_it_asks_for_python(shared_box: Sandbox) -> None:
    code = """const [row, ...none] = await tools.search("orders of a customer", { limit: 1 });
const one = await tools.describe("shop.get_order");
[row.signature, none.length, one.includes("get_order(args: { order_id: string }): Promise<{ [key: string]: string }>;"),
 (await tools.describe("shop.get_order", { language: "python" })).includes("async def get_order(self, order_id"),
 (await tools.describe("shop")).startsWith("// in the words of")]"""
    done = await run(shared_box, code, language="javascript")
    assert done.result == ["shop.list_orders({ customer: string; limit?: number }): string[]", 0, True, True, True]
    bad = await run(shared_box, "await tools.describe({ name: 'shop', language: 'cobol' })", language="javascript")
    assert bad.error is not None
    assert "the language is python, javascript or typescript" in bad.error.message
