"""The corpus is as large, as varied and as real as it is said to be."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.security import corpus
from tests.support.code import parsed

ALL = 250
EACH = 8


@pytest.fixture(scope="module")
def found() -> list[corpus.Attack]:
    return corpus.attacks()


def test_there_are_enough(found: list[corpus.Attack]) -> None:
    assert len(found) >= ALL


@pytest.mark.parametrize("family", corpus.FAMILIES)
def test_a_family_has_many_mechanisms(found: list[corpus.Attack], family: str) -> None:
    assert len({one.mechanism for one in found if one.family == family}) >= EACH


def test_no_mechanism_counts_twice(found: list[corpus.Attack]) -> None:
    """Not under another spelling either."""
    counted = Counter((one.family, " ".join(one.mechanism.casefold().split())) for one in found)
    assert [one for one, times in counted.items() if times > 1] == []
    assert [one for one in found if not 4 <= len(one.mechanism) <= 90] == []


def test_what_is_counted_is_what_pytest_runs(request: pytest.FixtureRequest, found: list[corpus.Attack]) -> None:
    """Of the files that pytest has collected whole; the marks are found by other means than its own."""
    here = [item for item in request.session.items if item.path.parent == Path(__file__).parent]
    run = {(mark.args[0], mark.args[1]) for item in here for mark in item.iter_markers("attack")}
    assert run <= {(one.family, one.mechanism) for one in found}


def test_no_attack_can_only_succeed(found: list[corpus.Attack]) -> None:
    """Each asserts something, itself or by what it calls in its own file."""
    trees: dict[str, dict[str, ast.AST]] = {}
    for path in Path(__file__).parent.glob("test_*.py"):
        tree = parsed(path)
        trees[path.name] = {
            node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
    for one in found:
        file, _, name = one.test.partition("::")
        assert _asserts(name.rpartition("::")[2], trees[file], set()), one


def _asserts(name: str, functions: dict[str, ast.AST], seen: set[str]) -> bool:
    if name not in functions or name in seen:
        return False
    seen.add(name)
    for node in ast.walk(functions[name]):
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Attribute) and node.attr == "raises"):
            return True
        called = node.func if isinstance(node, ast.Call) else None
        inner = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
        if inner and _asserts(inner, functions, seen):
            return True
    return False


def test_the_page_is_of_now() -> None:
    assert corpus.PAGE.read_text(encoding="utf-8") == corpus.page(), "make it anew: python -m tests.security.corpus"
