"""Whoever starts a program, looks one up or imports fastmcp does it in the one place for that: the code itself is
looked at.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from go_ent import composer, engine, sandbox
from tests.support.code import parsed

PACKAGES = [Path(str(package.__file__)).parent for package in (sandbox, composer, engine)]
# Who may start a process, and how. What they start: Python (children), programs (the other two), by their full path.
STARTS = {
    "sandbox/children/python.py": {"subprocess.run", "subprocess.Popen", "sys.executable"},
    "engine/processes/child.py": {"subprocess.Popen"},
    "composer/sources/mcp_transports.py": {"asyncio.create_subprocess_exec"},
    "sandbox/children/programs.py": {"shutil.which"},
    "sandbox/images/packages.py": {"venv.create"},  # without pip, for which it would start a Python
    "sandbox/worker/zygote.py": {"os.fork"},
    "engine/cli/terminal/pager.py": {"subprocess.run"},  # a person's own pager, by its full path
    "engine/cli/terminal/editor.py": {"subprocess.call"},  # and their editor, likewise
    # A person's own browser, for a page that they have asked for. The command has left no relative name in PATH.
    "engine/cli/commands/console.py": {"webbrowser", "webbrowser.open"},
    "engine/cli/commands/servers/logins.py": {"webbrowser", "webbrowser.open"},
}
MODULES = frozenset("pty multiprocessing concurrent.futures.process webbrowser".split())
MEMBERS = {
    "subprocess": frozenset("run call check_call check_output Popen getoutput getstatusoutput".split()),
    "os": frozenset("system popen fork forkpty posix_spawn posix_spawnp startfile".split()),
    "sys": frozenset({"executable"}),
    "shutil": frozenset({"which"}),
    "venv": frozenset({"create", "EnvBuilder"}),
}
ANYWHERE = frozenset(
    "create_subprocess_exec create_subprocess_shell subprocess_exec subprocess_shell open_process run_process".split()
)


def files() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            name = f"{package.name}/{path.relative_to(package)}"
            if not name.startswith("sandbox/guest/"):
                yield name, path


def used(tree: ast.AST) -> Iterator[str]:
    """The ways to start or to find a program, or a Python, that a module uses or could use by another name."""
    for node in _values(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (name for alias in node.names if _starts(name := f"{node.module}.{alias.name}"))
        elif isinstance(node, ast.Import):
            yield from (
                alias.name
                for alias in node.names
                if alias.name in MODULES or (alias.name == "subprocess" and alias.asname)
            )
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and _starts(name := f"{node.value.id}.{node.attr}")
        ):
            yield name


def _values(tree: ast.AST) -> Iterator[ast.AST]:
    """What is executed: not what is said of types."""
    nodes = [tree]
    while nodes:
        yield (node := nodes.pop())
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                nodes += [below for below in value if isinstance(below, ast.AST)]
            elif isinstance(value, ast.AST) and field not in ("annotation", "returns"):
                nodes.append(value)


def _starts(name: str) -> bool:
    module, _, member = name.rpartition(".")
    of_module = MEMBERS.get(module, frozenset())
    return (
        module in MODULES
        or member in of_module
        or member in ANYWHERE
        or (module == "os" and member.startswith(("exec", "spawn")))
    )


def test_processes_are_started_in_one_place() -> None:
    for name, path in files():
        assert set(used(parsed(path))) <= STARTS.get(name, set()), name


def test_other_ways_would_be_seen() -> None:
    for code in (
        "import subprocess\nsubprocess.run([])",
        "from subprocess import run",
        "import subprocess as sp",
        "import os\nos.execvp('x', [])",
        "from os import posix_spawn",
        "import asyncio\nasyncio.create_subprocess_shell('x')",
        "from shutil import which",
        "import sys\n[sys.executable, '-m', 'pip']",
        "import multiprocessing",
        "import anyio\nanyio.run_process([])",
    ):
        assert list(used(ast.parse(code))), code


class _Fastmcp(ast.NodeVisitor):
    """Imports of fastmcp that happen when a module runs, or in a function that has not loaded it first."""

    def __init__(self) -> None:
        self.at_once: list[int] = []
        self.unprepared: list[int] = []
        self._loaded: list[int] = []
        self._inside = 0

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        before, self._inside = self._loaded, self._inside + 1
        self._loaded = [
            call.lineno
            for call in ast.walk(node)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "load_fastmcp"
        ]
        self.generic_visit(node)
        self._loaded, self._inside = before, self._inside - 1

    visit_AsyncFunctionDef = visit_FunctionDef

    def _imported(self, names: list[str], line: int) -> None:
        if any(name.split(".")[0] == "fastmcp" for name in names):
            if not self._inside:
                self.at_once.append(line)
            elif not any(loaded < line for loaded in self._loaded):
                self.unprepared.append(line)

    def visit_Import(self, node: ast.Import) -> None:
        self._imported([alias.name for alias in node.names], node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._imported([node.module or ""], node.lineno)


def test_fastmcp_is_never_imported_with_the_settings_of_a_folder() -> None:
    """In the server's package, whose first act is to load it, a module may; elsewhere a function must load it first."""
    server = parsed(PACKAGES[2] / "server" / "__init__.py")
    loads = [
        node.lineno
        for node in server.body
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value) == "load_fastmcp()"
    ]
    assert loads
    for name, path in files():
        if "fastmcp" not in path.read_text(encoding="utf-8"):
            continue
        look = _Fastmcp()
        look.visit(parsed(path))
        if name == "engine/server/__init__.py" or not name.startswith(
            ("engine/server/", "composer/sources/fastmcp_loading")
        ):
            assert look.at_once == [], name
        if not name.startswith(("engine/server/", "composer/sources/fastmcp_loading")):
            assert look.unprepared == [], name
