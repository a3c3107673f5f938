"""Searching tools by words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_ent.composer.catalogue.search import Index
from go_ent.composer.catalogue.spec import ToolSpec
from tests.support.rows import each


def tool(name: str, description: str = "", **parameters: str) -> ToolSpec:
    schema = {"type": "object", "properties": {key: {"description": text} for key, text in parameters.items()}}
    return ToolSpec(name, description, schema)


TOOLS = [
    tool(
        "github.search_issues",
        "Search issues and pull requests.",
        q="the query, in GitHub's syntax",
        state="open or closed",
    ),
    tool("github.create_issue", "Open a new issue in a repository.", title="its title", body="its text"),
    tool("github.list_commits", "The commits of a branch.", sha="a branch or a commit"),
    tool("jira.getIssue", "One ticket by its key.", issueKey="such as ABC-1"),
    tool("slack.post_message", "Send a message to a channel.", channel="where to", text="what to say"),
    tool("slack.list_channels", "All channels of the workspace."),
    tool("files.read", "Read a file from disk.", path="which file"),
    tool("mail.send", "Send an e-mail. Mentions of a message, a channel, an issue.", to="addresses"),
    tool("auth.login", "Log in."),
    tool("calendar.create_event", "Make an appointment.", attendees="e-mail addresses of those invited"),
]
INDEX = Index(TOOLS)


def names(words: str, limit: int = 10) -> list[str]:
    return [spec.name for spec in INDEX.search(words, limit)]


@each(
    ("words", "first"),
    [
        ("search issues", "github.search_issues"),
        ("searching for an issue", "github.search_issues"),
        ("create issues", "github.create_issue"),
        ("creating an issue", "github.create_issue"),
        ("jira issue", "jira.getIssue"),
        ("get issue", "jira.getIssue"),
        ("getissue", "jira.getIssue"),
        ("ticket", "jira.getIssue"),
        ("post a message", "slack.post_message"),
        ("channels", "slack.list_channels"),
        ("commit", "github.list_commits"),
        ("repositories", "github.create_issue"),
        ("repo", "github.create_issue"),
        ("authentication", "auth.login"),
        ("appointments", "calendar.create_event"),
        ("attendee", "calendar.create_event"),
        ("slack.post_message", "slack.post_message"),
        ("tools.files.read", "files.read"),
        ("send", "mail.send"),
        ("GITHUB Commits", "github.list_commits"),
    ],
)
def test_the_best_tool_comes_first(words: str, first: str) -> None:
    assert names(words)[0] == first


def test_a_name_counts_more_than_a_mention() -> None:
    found = names("channel")
    assert found.index("slack.list_channels") < found.index("mail.send")


def test_parameters_and_their_descriptions_are_searched() -> None:
    assert names("sha") == ["github.list_commits"]
    assert names("syntax") == ["github.search_issues"]


def test_equals_come_by_name_whatever_the_order() -> None:
    same = [tool(f"x{n}.run", "Runs.") for n in range(9)]
    assert [spec.name for spec in Index(reversed(same)).search("run")] == [f"x{n}.run" for n in range(9)]


def test_limits() -> None:
    assert len(names("issue", 2)) == 2
    assert names("issue", 0) == names("issue", -1) == []


@pytest.mark.parametrize("words", ["", "  ", "?!", "zzzzzz", "the", "\x00"])
def test_words_that_find_nothing(words: str) -> None:
    assert names(words) == []


def test_nothing_to_search() -> None:
    assert Index([]).search("issue") == []
    assert len(Index(TOOLS)) == len(TOOLS)


def test_other_alphabets() -> None:
    assert [
        spec.name for spec in Index([*TOOLS, tool("wetter.heute", "Größe und Stärke; 天气 预报")]).search("größe 预报")
    ] == ["wetter.heute"]


def test_odd_schemas() -> None:
    odd: list[Any] = [
        None,
        3,
        {"properties": 3},
        {"properties": {3: None, "a": {"description": 4}}},
        {"properties": {"find": True}},
    ]
    index = Index(ToolSpec(f"a.t{number}", "", schema) for number, schema in enumerate(odd))
    assert [spec.name for spec in index.search("find")] == ["a.t4"]


@given(
    st.lists(st.builds(tool, st.text(max_size=20), st.text(max_size=60), a=st.text(max_size=30)), max_size=8),
    st.text(max_size=40),
)
@settings(max_examples=50, deadline=None)
def test_any_words_in_any_tools(specs: list[ToolSpec], words: str) -> None:
    index = Index(specs)
    found = index.search(words)
    assert all(spec in specs for spec in found)
    assert index.search(words) == found


@given(st.sets(st.from_regex(r"[a-z]{1,6}\.[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True), max_size=8))
@settings(max_examples=50, deadline=None)
def test_every_tool_is_found_by_its_name(given_names: set[str]) -> None:
    index = Index(map(tool, given_names))
    for name in given_names:
        assert index.search(name)[0].name.lower() == name.lower()
