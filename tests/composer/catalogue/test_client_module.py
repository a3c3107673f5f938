"""`go-ent stubs --python`: a module with a project's tools as typed methods."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from go_ent.composer.catalogue.client_module import client_module
from go_ent.composer.catalogue.spec import ToolSpec
from tests.composer.catalogue.test_stubs import HOSTILE, REALISTIC, drawn
from tests.support.shell import go_ent

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
SPECS = [
    ToolSpec("errors", "Lines with errors.", TEXT, {"type": "array", "items": {"type": "string"}}),
    ToolSpec("a.b.deep", "Deep.", TEXT, {"type": "integer"}),
    ToolSpec("a.list", "A list of lists.", TEXT, {"type": "array", "items": {"type": "array"}}),
    ToolSpec("web.odd-name", "Odd.", TEXT),
    ToolSpec("Tools", "Named as the client is.", TEXT),
]
IMPORTED = {"__future__", "pathlib", "types", "typing", "builtins", "go_ent.composer"}


def test_tools_are_methods_of_a_plain_and_an_async_client() -> None:
    made = client_module(SPECS)
    names = {node.name for node in ast.parse(made).body if isinstance(node, ast.ClassDef)}
    own = ("Tools", "GrantedTools", "ATools", "ABTools", "WebTools")
    assert names == {f"{kind}{name}" for kind in ("", "Async") for name in own}
    assert "    def errors(self, text: str) -> list[str]:\n" in made
    assert "    async def errors(self, text: str) -> list[str]:\n" in made
    assert "class ATools(Protocol):\n    b: ABTools\n" in made
    assert "    # not an attribute: tools['web.odd-name']" in made


def hostile() -> list[ToolSpec]:
    named = [ToolSpec(name, name, {"type": "object", "properties": {name: {"description": name}}}) for name in HOSTILE]
    return [*named, *(ToolSpec(f"x.{name}", name, TEXT) for name in HOSTILE), *map(drawn, range(100))]


def test_hostile_names_and_words_declare_and_nothing_else() -> None:
    """Apart from its own two classes it can do nothing: no call but TypedDict, no import but its own."""
    tree = ast.parse(client_module(hostile()))
    *declared, tools, async_tools = tree.body
    assert [getattr(node, "name", "") for node in (tools, async_tools)] == ["Tools", "AsyncTools"]
    for node in (inner for outer in declared for inner in ast.walk(outer)):
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name)
            assert node.func.id == "TypedDict"
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert getattr(node, "module", "") in IMPORTED
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert all(isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) for one in node.body)


@pytest.mark.more
def test_mypy_strict_accepts_it_and_what_uses_it(tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(client_module(SPECS))
    (tmp_path / "many_tools.py").write_text(client_module([*REALISTIC, *hostile()]))
    (tmp_path / "uses.py").write_text(
        "from my_tools import AsyncTools, Tools\n\n"
        "def lines() -> list[str]:\n    with Tools('.') as tools:\n"
        "        number: int = tools.a.b.deep(text='x')\n        return tools.errors(text=str(number))\n\n"
        "async def deep() -> int:\n    async with AsyncTools() as tools:\n        return await tools.a.b.deep('x')\n"
    )
    (tmp_path / "wrong.py").write_text(
        "from my_tools import Tools\n\nwith Tools() as tools:\n    tools.errors(log=1)\n    tools.nothing()\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"]
    command += ["--python-version=3.11", f"--cache-dir={tmp_path / 'cache'}"]
    done = subprocess.run(
        [*command, "uses.py", "many_tools.py"], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[:4000]
    done = subprocess.run([*command, "wrong.py"], check=False, cwd=tmp_path, capture_output=True, text=True)
    assert 'Unexpected keyword argument "log"' in done.stdout
    assert '"GrantedTools" has no attribute "nothing"' in done.stdout


def test_the_module_calls_the_tools(project: Path) -> None:
    (project / "double.py").write_text(
        '# /// tool\n# name = "double"\n# ///\ndef double(n: int) -> int:\n    """Twice n."""\n    return 2 * n\n'
    )
    assert go_ent("tool", "add", "double.py", cwd=project).returncode == 0
    done = go_ent("stubs", "--python", "--output", "my_tools.py", cwd=project)
    assert (done.returncode, done.stdout) == (0, b"my_tools.py: 1 tool\n")
    names: dict[str, object] = {}
    exec((project / "my_tools.py").read_text(), names)
    with names["Tools"](project) as tools:  # type: ignore[operator]
        assert tools.double(n=4) == tools.double(4) == 8
