"""Tools from elsewhere: exported documents, and JSON files of the older form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from go_ent.composer.composed.importing import Imported, read_import
from go_ent.sandbox import Sandbox
from tests.composer.conftest import DOUBLE, Open


def older(**fields: Any) -> dict[str, Any]:
    return {
        "id": "7d0a",
        "name": "double",
        "description": "Twice a number.",
        "code": 'def double(n: int) -> int:\n    """Twice n."""\n    return 2 * n\n',
        "scope": "project",
        "created": "2024-01-02T03:04:05Z",
        "usage_count": 12,
        "last_used": "2024-02-03T04:05:06Z",
        "metadata": {"author": "x"},
        **fields,
    }


async def read(box: Sandbox, document: Any) -> list[Imported]:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return await read_import(data, "file.json", box)


class TestOlderForm:
    async def test_a_function_is_taken_as_it_is(self, shared_box: Sandbox, open_composer: Open) -> None:
        (item,) = await read(shared_box, older())
        assert (item.name, item.calls, item.problem, item.note) == ("double", 12, None, "")
        assert item.last_used is not None

        async with open_composer() as composer:
            await composer.compose(item.source)
            assert await composer.call("double", n=4) == 8

    async def test_other_code_becomes_a_body(self, shared_box: Sandbox, open_composer: Open) -> None:
        (item,) = await read(
            shared_box,
            older(name="Find-Things", code="hits = await tools.search(q='x')\nresult = len(hits)", scope="global"),
        )
        assert item.name == "find_things"
        assert "was 'Find-Things'; its code became the body of a function" in item.note

        def search(q: str) -> list[str]:
            return [q, q]

        async with open_composer(tools=[search]) as composer:
            await composer.compose(item.source)
            assert await composer.call("find_things") == 2

    async def test_what_it_says_of_itself_is_kept(self, shared_box: Sandbox) -> None:
        code = "def double(n: int) -> int:\n    return 2 * n\n"
        (item,) = await read(shared_box, older(code=code, description='Twice "n"'))
        assert "Twice" in item.source
        (item,) = await read(shared_box, older(code='text = """a\nb"""\ntext', name="t", description='ends in "'))
        assert shared_box.run_sync(item.source, {}, entry="t").result == "a\nb"

    async def test_camel_case_and_lists(self, shared_box: Sandbox) -> None:
        found = await read(shared_box, [older(name="fetchAllRows"), older(name="9lives")])
        assert [item.name for item in found] == ["fetch_all_rows", "tool_9lives"]

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"code": "const x = await tools.search();"}, "its code is not Python"),
            ({"name": "class"}, "its name can't be made into one"),
            ({"name": "../../etc/passwd\0"}, None),
            ({"name": "???"}, "its name can't be made into one"),
            ({"name": 5}, "name: it should be text"),
            ({"code": None}, "code: it should be text"),
            ({"usage_count": -1}, "usage_count"),
        ],
    )
    async def test_what_is_wrong_with_one_is_said_of_it(
        self, shared_box: Sandbox, fields: dict[str, Any], said: str | None
    ) -> None:
        bad, good = await read(shared_box, [older(**fields), older()])
        assert good.problem is None
        if said is None:
            assert bad.name == "etc_passwd"
        else:
            assert bad.problem is not None
            assert said in bad.problem

    @pytest.mark.parametrize("data", [b"", b"nope", b"\xff", b"[" * 100_000, b"5", b'"text"', b"null", b'{"tools": 5}'])
    async def test_what_is_no_import(self, shared_box: Sandbox, data: bytes) -> None:
        assert all(item.problem for item in await read(shared_box, data))


async def test_tool_files_and_own_documents(shared_box: Sandbox) -> None:
    assert [item.source for item in await read(shared_box, DOUBLE.encode())] == [DOUBLE]
    document = {
        "format": "go-ent-tools/1",
        "tools": [{"name": "double", "version": 3, "source": DOUBLE}, {"name": "x"}, 5],
    }
    found = await read(shared_box, document)
    assert [(item.source, item.problem) for item in found] == [
        (DOUBLE, None),
        ("", "it has no source"),
        ("", "it has no source"),
    ]
