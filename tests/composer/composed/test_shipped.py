"""The ready-made tools: each composes, so its examples come true, and does over real functions what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer import Composer, Saved
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.shipped import shipped_tools
from go_ent.sandbox import Run
from tests.support.rows import each

SHIPPED = shipped_tools()
ITEMS = [{"id": number, "name": f"item {number}"} for number in range(25)]


class Shaky:
    """A tool that fails as often as it is told to, and counts."""

    def __init__(self) -> None:
        self.failures = self.calls = self.asked = 0
        self.wanted = 1

    def prepare(self, failures: int, together: int = 1) -> None:
        self.failures, self.calls, self.wanted, self.asked = failures, 0, together, 0

    async def together(self) -> None:
        """Until as many are here as there should be."""
        self.asked += 1
        while self.asked < self.wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    def find(self, city: str) -> list[dict[str, Any]]:
        self.calls += 1
        if self.calls <= self.failures:
            raise RuntimeError(f"busy in {city}")
        return [{"id": 2, "name": "Bob", "plan": None}, {"id": 3, "name": "Cay"}]


SHAKY = Shaky()


async def slow_find(city: str) -> list[dict[str, Any]]:
    """Found after a while."""
    await SHAKY.together()
    return [{"id": 1, "name": "Ann", "city": city}, {"id": 2, "plan": "pro"}]


def list_pages(page: int, per_page: int = 10) -> list[dict[str, Any]]:
    """Ten to a page, from page 1."""
    return ITEMS[(page - 1) * per_page : page * per_page]


def list_from(start: int) -> dict[str, Any]:
    """Ten, from one before there."""
    first = max(0, start - 1)
    return {"data": {"items": ITEMS[first : first + 10] if start < len(ITEMS) else []}}


async def list_after(cursor: str | None = None) -> dict[str, Any]:
    """Those after the cursor."""
    first = int(cursor or 0)
    following = first + 10
    return {"items": ITEMS[first:following], "next_cursor": str(following) if following < len(ITEMS) else None}


def same_again(page: int) -> list[dict[str, Any]]:
    """The same page, whichever is asked for."""
    return ITEMS[:2]


def breaks(page: int) -> list[dict[str, Any]]:
    """The first page, and no other."""
    if page > 1:
        raise RuntimeError("too many requests")
    return ITEMS[:2]


def no_list() -> str:
    """Anything but records."""
    return "nothing here"


def secret() -> list[dict[str, Any]]:
    """Not granted."""
    return [{"id": 0}]


TOOLS = {
    "demo": {
        "find": SHAKY.find,
        "slow_find": slow_find,
        "list_pages": list_pages,
        "list_from": list_from,
        "list_after": list_after,
        "same_again": same_again,
        "breaks": breaks,
        "no_list": no_list,
    },
    "private": {"secret": secret},
}


class Project:
    """A project with every ready-made tool composed into it, on one event loop."""

    def __init__(self, runner: asyncio.Runner, composer: Composer) -> None:
        self.runner = runner
        self.composer = composer
        self.saved: dict[str, Saved] = {}

    def compose(self, name: str) -> Saved:
        if name not in self.saved:
            self.saved[name] = self.runner.run(self.composer.compose(SHIPPED[name].read_text("utf-8")))
        return self.saved[name]

    def outcome(self, name: str, **inputs: Any) -> Run:
        self.compose(name)
        return self.runner.run(self.composer.run(name, inputs))

    def result(self, name: str, **inputs: Any) -> Any:
        run = self.outcome(name, **inputs)
        assert run.status == "completed", run.error
        return run.result


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("project")
    (folder / ".go-ent").mkdir()
    (folder / ".go-ent" / "config.toml").write_text(
        '[grants]\nallow = ["demo.*"]\n'
    )  # as narrow as a project's grants are
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.setenv("GO_ENT_DATA", str(tmp_path_factory.mktemp("data")))

        async def opened() -> Composer:
            return Composer(folder, tools=TOOLS)

        made = Project(runner, runner.run(opened()))
        yield made
        runner.run(made.composer.close())


def test_enough_are_shipped() -> None:
    assert len(SHIPPED) >= 8


@pytest.mark.parametrize("name", SHIPPED)
def test_each_composes_and_its_examples_come_true(project: Project, name: str) -> None:
    saved = project.compose(name)
    assert saved.name == name
    assert saved.examples >= 2


@pytest.mark.parametrize("name", SHIPPED)
def test_each_is_described_with_all_its_parameters(project: Project, name: str) -> None:
    interface = project.compose(name).interface
    first = interface.description.splitlines()[0]
    assert first.endswith(".")
    assert len(first) > 20
    undescribed = [
        parameter for parameter, schema in interface.input_schema["properties"].items() if "description" not in schema
    ]
    assert undescribed == []


@each(("name", "path"), SHIPPED.items())
def test_each_file_is_as_the_store_wants_it(name: str, path: Path) -> None:
    file = toolfile.read(path.read_bytes(), name)
    assert file.metadata.version is None  # the store gives it
    empty = [
        example for example in file.metadata.examples if any(value in ("", []) for value in example.inputs.values())
    ]
    errors = [example for example in file.metadata.examples if example.error is not None]
    assert empty or errors, "an example of an empty input, or of an error"


def test_sources_are_asked_at_the_same_time_retried_and_merged(project: Project) -> None:
    SHAKY.prepare(failures=2)
    found = project.result(
        "merge_sources", sources=["demo.find", "demo.slow_find"], arguments={"city": "Oslo"}, key="id", wait_s=0.01
    )
    assert SHAKY.calls == 3
    assert found["records"] == [
        {"id": 2, "name": "Bob", "plan": "pro"},
        {"id": 3, "name": "Cay"},
        {"id": 1, "name": "Ann", "city": "Oslo"},
    ]
    assert [(report["source"], report["attempts"], report["ok"]) for report in found["sources"]] == [
        ("demo.find", 3, True),
        ("demo.slow_find", 1, True),
    ]


def test_several_slow_sources_are_asked_at_the_same_time(project: Project) -> None:
    SHAKY.prepare(failures=0, together=8)  # none answers before all are asked
    found = project.result("merge_sources", sources=["demo.slow_find"] * 8, arguments={"city": "Oslo"}, key="id")
    assert len(found["records"]) == 2


def test_a_source_that_fails_for_good_is_reported(project: Project) -> None:
    SHAKY.prepare(failures=100)
    sources = ["demo.slow_find", "demo.find", "private.secret", "demo.nowhere"]
    found = project.result(
        "merge_sources", sources=sources, arguments={"city": "Oslo"}, key="id", attempts=2, wait_s=0.01
    )
    assert found["failed"] == ["demo.find", "private.secret", "demo.nowhere"]
    reports = {report["source"]: report for report in found["sources"]}
    assert reports["demo.find"]["attempts"] == 2
    assert "busy in Oslo" in reports["demo.find"]["error"]
    assert reports["private.secret"]["attempts"] == 1  # another attempt would not help
    assert "not granted" in reports["private.secret"]["error"]
    assert len(found["records"]) == 2


def test_when_every_source_fails_that_is_an_error(project: Project) -> None:
    run = project.outcome("merge_sources", sources=["demo.no_list", "private.secret"], key="id")
    assert run.status == "error"
    assert run.error is not None
    assert "every source failed" in run.error.message
    assert "demo.no_list" in run.error.message


@pytest.mark.parametrize(
    ("inputs", "pages", "duplicates"),
    [
        ({"source": "demo.list_pages", "style": "page", "size_parameter": "per_page", "page_size": 10}, 3, 0),
        ({"source": "demo.list_pages", "style": "page"}, 4, 0),
        ({"source": "demo.list_from", "style": "offset", "parameter": "start", "items": "data.items"}, 4, 1),
        ({"source": "demo.list_after", "style": "cursor", "items": "items"}, 3, 0),
    ],
    ids=["page with a size", "page", "offset that overlaps", "cursor"],
)
def test_every_page_is_fetched_once(project: Project, inputs: dict[str, Any], pages: int, duplicates: int) -> None:
    found = project.result("page_through", key="id", **inputs)
    assert found == {"records": ITEMS, "pages": pages, "duplicates": duplicates, "stopped": "end", "error": None}


@pytest.mark.parametrize(
    ("inputs", "stopped", "records"),
    [
        ({"source": "demo.list_pages", "max_pages": 2}, "max_pages", 20),
        ({"source": "demo.same_again", "key": "id"}, "repeated", 2),
        ({"source": "demo.breaks"}, "failed", 2),
    ],
    ids=["enough pages", "the same page again", "a page fails"],
)
def test_why_no_more_pages_were_fetched_is_said(
    project: Project, inputs: dict[str, Any], stopped: str, records: int
) -> None:
    found = project.result("page_through", style="page", **inputs)
    assert (found["stopped"], len(found["records"])) == (stopped, records)
    assert ("too many requests" in (found["error"] or "")) == (stopped == "failed")


def test_what_is_not_granted_stays_so_for_a_tool_that_calls_any(project: Project) -> None:
    run = project.outcome("page_through", source="private.secret", style="cursor")
    assert run.error is not None
    assert "not granted" in run.error.message


def test_results_of_tools_are_joined(project: Project) -> None:
    found = project.result(
        "join_results",
        left={"tool": "demo.slow_find", "arguments": {"city": "Oslo"}},
        right={"tool": "demo.list_after", "items": "items"},
        key="id",
        how="left",
    )
    assert found["records"] == [
        {"id": 1, "name": "Ann", "city": "Oslo", "name_right": "item 1"},
        {"id": 2, "plan": "pro", "name_right": "item 2"},
    ]
    assert (found["matched"], found["only_left"], found["only_right"]) == (2, 0, 8)


def test_one_tool_is_called_for_each_of_many_arguments(project: Project) -> None:
    project.compose("rank_groups")
    found = project.result(
        "call_for_each", tool="demo.list_pages", each=[{"page": page} for page in (3, 1, "x")], common={"per_page": 12}
    )
    assert [call["result"] and len(call["result"]) for call in found["calls"]] == [1, 12, None]
    assert found["failed"] == 1
    nested = project.result("call_for_each", tool="rank_groups", each=[{"records": ITEMS, "key": "id", "top": 1}])
    assert nested["calls"][0]["result"] == [{"rank": 1, "group": 0, "value": 1, "records": 1}]
    within = project.result("call_for_each", tool="call_for_each", each=[{"tool": "demo.no_list", "each": []}])
    assert "can't call itself" in within["calls"][0]["error"]


def test_a_table_of_ten_thousand_odd_rows_is_summarised(project: Project) -> None:
    rows: list[dict[str, Any]] = [
        {"n": number, "größe": ["S", "M", None, "🎉"][number % 4]} for number in range(10_000)
    ]
    rows[7] = {}
    found = project.result("summarise_table", rows=rows, top=1)
    number, size = found["columns"]
    assert (number["type"], number["missing"], number["distinct"], number["maximum"]) == ("integer", 1, 9_999, 9_999)
    assert (size["name"], size["missing"], size["distinct"]) == ("größe", 2_501, 3)
    assert size["top"] == [{"value": "S", "count": 2_500}]


def test_the_tools_work_on_each_others_results(project: Project) -> None:
    records = project.result(
        "csv_to_records", text="team;points;at\nred;3;2024-03-01\nblue;5;2024-03-01\nred;4;2024-03-02\n"
    )
    ranked = project.result("rank_groups", records=records, key="team", aggregate="sum", field="points")
    days = project.result("time_buckets", records=records, field="at")
    sections = [{"heading": "Teams", "table": ranked}, {"heading": "Days", "table": days["buckets"]}]
    assert project.result("markdown_report", title="Points", sections=sections) == (
        "# Points\n\n"
        "## Teams\n\n| rank | group | value | records |\n| ---: | --- | ---: | ---: |\n| 1 | red | 7 | 2 |\n| "
        "2 | blue | 5 | 1 |\n\n"
        "## Days\n\n| start | count |\n| --- | ---: |\n| 2024-03-01 | 2 |\n| 2024-03-02 | 1 |\n"
    )
