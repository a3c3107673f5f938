"""Tests of the tests: they use what is public, but for a list that gets shorter, not longer."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support import ROOT
from tests.support.code import parsed
from tests.support.rows import each

# The private names of other modules that a file reaches: of go_ent, and of libraries.
REACHED = {
    "conftest.py": "_compare _remade",
    "composer/catalogue/test_catalogue.py": "_index",
    "composer/sources/test_mcp.py": "_bucket _died _left _link _not_before _tool_buckets _unwrapped",
    "composer/sources/test_logins.py": "_classes",
    "engine/context/test_counting.py": "_load _usable",
    "engine/fleet/test_dbos_adapter.py": "_core _dbos _serialization _sys_db",
    "engine/processes/test_child.py": "_Lines _send",
    "engine/prompts/test_chunker.py": "_load _usable",
    "faults/test_clock.py": "_last",
    "fuzz/wires.py": "_json _object",
    "sandbox/test_pool.py": "_all _background _flights _loop _pools _retire _users _zygotes",
    "sandbox/test_reset.py": "_all _compiled _globals _loop _pools _requests _run_own _scan _threads",
    "sandbox/test_sharing.py": "_flights",
    "sandbox/test_workers.py": "_zygotes",
    "security/test_composer.py": "_cache _known _seen",
    "security/test_forged_code.py": "_codes _zygotes",
    "security/test_hardening.py": "_all _flights _pools",
    "security/test_named_tools.py": "_mcp_server",
    "security/test_runner_injection.py": "_config _environment _prompt",
    "security/test_secrets.py": "_environment _own _scrub",
    "security/test_untrusted.py": "_run",
    "test_adapters.py": "_admit_session _bindings _ffi _mcp_server _session_owners _state_store",
}

DOCUMENTED = {"_exit", "_repr_html_"}  # of os, and what notebooks ask for


def files() -> Iterator[tuple[str, ast.Module]]:
    """The files of the tests in which there is a private name at all."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        name = path.relative_to(ROOT / "tests").as_posix()
        if not name.startswith("sandbox/corpus/") and re.search(r"(?<!\w)_[a-zA-Z]", path.read_text(encoding="utf-8")):
            yield name, parsed(path)


def reached(tree: ast.Module) -> set[str]:
    """The private names that a module imports, reads from what is not itself, or replaces by their name."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            found |= {alias.name for alias in node.names}
            found |= set((node.module or "").split("."))
        elif isinstance(node, ast.Attribute) and not _is_self(node.value):
            found.add(node.attr)
        elif isinstance(node, ast.Call) and "setattr" in (getattr(node.func, "id", ""), getattr(node.func, "attr", "")):
            texts = [one.value for one in node.args[:2] if isinstance(one, ast.Constant)]
            found |= {text.rpartition(".")[2] for text in texts if isinstance(text, str)}
    return {name for name in found if _is_private(name)} - set(own(tree)) - DOCUMENTED


def own(tree: ast.Module) -> Iterator[str]:
    """The names that a module defines itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
            yield node.attr


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def test_private_names_are_reached_by_those_who_are_listed() -> None:
    found = {name: " ".join(sorted(names)) for name, tree in files() if (names := reached(tree))}
    assert found == REACHED


def test_each_way_to_reach_one_is_seen() -> None:
    for code in (
        "from go_ent.engine.x import _y",
        "from go_ent._x import y",
        "box._pool.close()",
        "box._pool = None",
        "monkeypatch.setattr(box, '_pool', None)",
        "monkeypatch.setattr('go_ent.sandbox._pool', None)",
    ):
        assert reached(ast.parse(code)), code
    assert not reached(
        ast.parse("class A:\n    def __init__(self): self._x = os._exit\n    def f(self, b): return b._x")
    )


def test_rows_of_one_test_are_all_run_and_the_one_that_fails_is_named() -> None:
    seen = []

    @each(("number", "word"), [(1, "one"), (2, "two"), (3, "three")])
    def test_of_rows(number: int, word: str) -> None:
        seen.append(word)
        assert number != 2

    with pytest.raises(AssertionError) as caught:
        test_of_rows()
    assert (seen, caught.value.__notes__) == (["one", "two"], ["with (2, 'two')"])
    with pytest.raises(AssertionError):
        each("nothing", [])(print)()
