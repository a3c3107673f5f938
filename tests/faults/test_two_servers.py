"""Two servers of one project, with clients at work on both at once: no update is lost, no money is spent twice, both
hear of changes.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp.client.subscriptions import ToolsListChanged, listen

from tests.support.executions import FileStore
from tests.support.serving import Served, say, serving
from tests.support.shell import go_ent

pytestmark = pytest.mark.more

AGENT = "import json; print(json.dumps({'said': 'done', 'cost': 1.0}))"
CONFIG = f"""
[engine]
command = "agent"
[commands.agent]
argv = [{json.dumps(sys.executable)}, "-S", "-E", "-c", {json.dumps(AGENT)}]
stdin = true
format = "json"
path = "said"
cost_usd = "cost"
max_cost_usd = 1.0
[budget]
reserve_usd = 1.0
hard = true
[budget.day]
usd = 3.0
"""
Pair = tuple[Served, Served]
Answers = list[tuple[bool, Any]]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    project = tmp_path_factory.mktemp("two") / "project"
    (project / ".go-ent").mkdir(parents=True)
    (project / ".go-ent" / "config.toml").write_text(CONFIG)
    with serving(project) as first:
        # Its log is named after the project: the second one's goes elsewhere.
        first.log.rename(first.log.with_suffix(".first"))
        with serving(project) as second:
            yield first, second
            assert "Traceback" not in second.said() + first.log.with_suffix(".first").read_text()


def tool(name: str, expression: str) -> str:
    return (
        f'# /// tool\n# name = "{name}"\n# ///\ndef {name}(x: int) -> int:\n    """A number."""\n    return '
        f"{expression}\n"
    )


def at_once(pair: Pair, work: Any, times: int) -> Answers:
    """What came of asking both, each *times* with a client of its own; *work* is given the client, which server it
    is, and a number.
    """

    async def of(served: Served, which: int) -> Answers:
        async with Client(StreamableHttpTransport(served.url)) as client:
            asked: list[Coroutine[Any, Any, tuple[bool, Any]]] = [
                work(client, which, number) for number in range(times)
            ]
            return list(await asyncio.gather(*asked))

    async def main() -> Answers:
        first, second = await asyncio.gather(of(pair[0], 0), of(pair[1], 1))
        return first + second

    return asyncio.run(main())


def test_both_compose_the_same_tool_and_every_version_is_there(pair: Pair) -> None:
    sources = {
        (which, number): tool("shared", f"x + {which * 100 + number}") for which in (0, 1) for number in range(6)
    }
    answers = at_once(pair, lambda client, which, number: say(client, "tool_compose", source=sources[which, number]), 6)
    assert not any(failed for failed, _ in answers), answers
    assert sorted(said["version"] for _, said in answers) == list(range(1, 13))
    folder = pair[0].project / ".go-ent" / "composed-tools"
    texts = [path.read_text() for path in (folder / ".history" / "shared").iterdir()]
    kept = ["".join(line for line in text.splitlines(True) if "version" not in line) for text in texts]
    assert sorted(kept) == sorted(sources.values())
    last = max((said["version"], order) for (_, said), order in zip(answers, sources, strict=True))[1]
    ran = at_once(pair, lambda client, which, number: say(client, "shared", x=0), 1)
    assert [said["result"] for _, said in ran] == [last[0] * 100 + last[1]] * 2


def test_both_run_the_same_tool_and_every_run_is_counted_and_on_record(pair: Pair) -> None:
    source = tool("twice", "2 * x")
    assert not any(
        failed
        for failed, _ in at_once(pair, lambda client, which, number: say(client, "tool_compose", source=source), 1)
    )
    answers = at_once(
        pair,
        lambda client, which, number: say(client, "tool_run", name="twice", inputs={"x": which * 100 + number}),
        15,
    )
    assert [said["result"] for _, said in answers] == [
        2 * (which * 100 + number) for which in (0, 1) for number in range(15)
    ]
    ids = [said["execution_id"] for _, said in answers]
    store = FileStore(pair[0].project)
    rows = {row.id: row.status for row in store.rows(limit=1000)}
    store.index.close()
    assert {rows.get(one) for one in ids} == {"completed"}
    assert len(set(ids)) == 30

    async def counted(client: Client[Any], which: int, number: int) -> tuple[bool, Any]:
        return await say(client, "tool_list")

    at_once(pair, counted, 1)  # what each has not yet written, it writes before it says
    for _, said in at_once(pair, counted, 1):
        assert next(one["calls"] for one in said["tools"] if one["name"] == "twice") == 30


def test_both_spend_from_one_budget_and_never_more_than_it_holds(pair: Pair) -> None:
    answers = at_once(pair, lambda client, which, number: say(client, "engine_execute", task=f"{which} {number}"), 4)
    done = [said for failed, said in answers if not failed]
    refused = [str(said) for failed, said in answers if failed]
    assert [said["metrics"]["cost_usd"] for said in done] == [1.0] * 3
    assert len(refused) == 5
    assert all("the budget of the day does not hold this" in said for said in refused), refused
    report = json.loads(go_ent("budget", "--json", cwd=pair[0].project).stdout)
    assert (report["day"]["spent_usd"], report["day"]["reserved_usd"]) == (3.0, 0.0)


async def test_what_one_composes_the_clients_of_both_hear_of_and_can_call(pair: Pair) -> None:
    async with (
        Client(StreamableHttpTransport(pair[0].url)) as first,
        Client(StreamableHttpTransport(pair[1].url)) as second,
        listen(first.session, tools_list_changed=True) as of_first,
        listen(second.session, tools_list_changed=True) as of_second,
    ):
        for client, name in ((first, "by_first"), (second, "by_second")):
            assert not (await say(client, "tool_compose", source=tool(name, "x")))[0]
            for heard in (of_first, of_second):
                async with asyncio.timeout(30):
                    assert isinstance(await anext(aiter(heard)), ToolsListChanged)
            for other in (first, second):
                assert (await say(other, name, x=7))[1]["result"] == 7


def test_an_execution_goes_on_in_one_of_them(pair: Pair) -> None:
    """Asked at the same moment, one goes on and the other is told who does, or that it has finished: never both."""
    code = "import asyncio\nawait asyncio.sleep(0.3)\ncheckpoint('once')\n5"

    async def interrupted() -> str:
        async with Client(StreamableHttpTransport(pair[0].url)) as client:
            running = asyncio.create_task(say(client, "code_execute", code=code, limits={"timeout_s": 0.1}))
            failed, said = await running
            assert (failed, said["status"]) == (True, "timeout")
            return str(said["execution_id"])

    execution_id = asyncio.run(interrupted())

    async def resume(client: Client[Any], which: int, number: int) -> tuple[bool, Any]:
        return await say(client, "engine_resume", execution_id=execution_id, timeout_s=20)

    answers = at_once(pair, resume, 1)
    done, refused = sorted(answers, key=lambda one: one[0])
    assert (done[0], done[1]["result"], refused[0]) == (False, 5, True), answers
    assert any(words in str(refused[1]) for words in ("is being run by process", "has finished")), refused
    store = FileStore(pair[0].project)
    assert [record["label"] for record in store.records(execution_id) if record["kind"] == "checkpoint"] == ["once"]
