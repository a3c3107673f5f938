"""The shape of the project: who may import whom, and what each package offers."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import go_ent
from go_ent import composer, engine, sandbox
from tests.support import ROOT
from tests.support.code import parsed
from tests.test_rooms import modules

# The modules outside engine/storage with a database: the ledger.
DATABASES = {"engine/budget/sqlite_ledger.py"}
WIRED = {
    "engine/storages.py": {"go_ent.engine.storage.file_storage.FileStorage"},
    "engine/cli/terminal/completion_values.py": {"go_ent.engine.storage.newest.newest_ids"},  # for a shell, at once
}
MAY_IMPORT = {"sandbox": {"sandbox"}, "composer": {"composer", "sandbox"}, "engine": {"engine", "composer", "sandbox"}}


def imports(path: Path) -> set[str]:
    """The top-level names that a file imports; of our own packages, the part behind `go_ent`."""
    return {name.removeprefix("go_ent.").partition(".")[0] for name in modules(path)}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_dependencies_point_one_way(package: str) -> None:
    for path in (ROOT / package).rglob("*.py"):
        assert imports(path) & set(MAY_IMPORT) <= MAY_IMPORT[package], path


def test_the_host_never_imports_the_guest() -> None:
    for package in MAY_IMPORT:
        for path in (ROOT / package).rglob("*.py"):
            if "guest" not in path.relative_to(ROOT).parts[:-1]:
                names = imports(path)
                assert not names & {"guest", "pickle", "marshal", "shelve"}, path
                assert not re.search(
                    r"\b(exec|eval|compile|__import__)\(", re.sub(r"re\.compile\(|\w\.compile\(", "", path.read_text())
                ), path


def test_only_the_rooms_that_keep_things_see_databases_and_folders() -> None:
    """What keeps executions, the ledger or composed tools can be replaced: nobody else knows that it is files."""
    for path in (ROOT / "engine").rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith("engine/storage/") and name not in DATABASES:
            assert "sqlite3" not in imports(path), name
        if name.startswith("engine/executions/") and name != "engine/executions/resume_checks.py":  # of the project
            assert "pathlib" not in imports(path), name
        # A workflow is a file of its own; a fleet writes the same lines and rows.
        if name.startswith(("engine/storage/", "engine/workflows/", "engine/fleet/")):
            continue
        wired = {one for one in modules(path) if one.startswith("go_ent.engine.storage.")}
        assert wired <= WIRED.get(name, set()), (
            f"{name} imports {wired}: use what go_ent.engine.executions.storage promises"
        )
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in ("folder", "packed", "commits"):
                owner = ast.unparse(node.value).rpartition(".")[2]
                assert owner not in ("held", "storage", "slot", "index"), f"{name}:{node.lineno}"


# Prose in any language: what is a digit there is the language's to say.
PROSE = {"composer/catalogue/search.py", "engine/context/deterministic.py", "engine/context/facts.py"}
ANY_DIGIT = re.compile(r"(?<!\\)(?:\\\\)*\\[dD]")
DIGIT_METHODS = {"isdigit", "isdecimal", "isnumeric"}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_numbers_from_outside_have_the_digits_0_to_9(package: str) -> None:
    r"""`\d`, `isdigit` and their like take the digits of every script: use [0-9], and `composer.numbers.whole`."""
    for path in (ROOT / package).rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if name in PROSE or "/guest/" in name:  # the guest's own data
            continue
        if not re.search(rf"\\[dD]|{'|'.join(DIGIT_METHODS)}", path.read_text(encoding="utf-8")):
            continue  # not in its text, so in none of its nodes
        tree = parsed(path)
        docs = {
            ast.get_docstring(node, clean=False)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in docs:
                assert not ANY_DIGIT.search(node.value), f"{name}:{node.lineno}"
            assert not (isinstance(node, ast.Attribute) and node.attr in DIGIT_METHODS), f"{name}:{node.lineno}"


# Tasks that are made by hand, and why no group of tasks would do. All else is in a TaskGroup, or awaited where it is.
HAND_MADE = {
    "engine/console/feed.py": "one look for all streams, which ends with the last of them",
    "engine/console/launches.py": "a run goes on when the page that began it is gone",
    "engine/adapters/uvicorn_adapter.py": "uvicorn runs until it is told to stop",
    "composer/catalogue/catalogue.py": "a source that is asked goes on when who asked has lost patience",
    "composer/sources/mcp.py": "a server starts, and is closed, for whoever needs it next",
    "composer/sources/mcp_link.py": "a connection outlives the call that opened it; a request is cancelled by its link",
    "composer/sources/mcp_transports.py": "three pipes that end together, whichever ends first",
    "engine/cli/commands/pipeline.py": "lines are emitted in order, whichever ends first",
    "engine/cli/commands/serve.py": "the server, or a signal, whichever comes first",
    "engine/cli/terminal/ask.py": "a question that nobody answers is given up",
    "engine/context/keeper.py": "all of them, with the first error after the last has ended",
    "engine/core/concurrency.py": "work that goes on when its caller is cancelled",
    "engine/core/stoppable_run.py": "the request to stop, made from a callback",
    "engine/dispatch/dispatcher.py": "what an agent says of its session, from a callback",
    "engine/dispatch/execution_context.py": "one writer for all steps of an execution",
    "engine/engine.py": "an execution outlives the call that started it",
    "engine/executions/running.py": "one look for all executions, while there are some",
    "engine/executions/tape.py": "one sync for all who wait for one",
    "engine/guest_runs/batch.py": "an execution that is carried while others bring its lines",
    "engine/processes/child.py": "a child that is stopped, or ends",
    "engine/runners/claude/mcp.py": "a question that is cancelled with its process",
    "engine/runners/opencode/runner.py": "a server that several runs share",
    "engine/runners/opencode/serve.py": "its child, and conversations that end by themselves",
    "engine/server/calls/long_calls.py": "a call that goes on to its end when its client has gone",
    "engine/server/calls/sampling.py": "a question to a client, which its connection may end",
    "engine/server/http/gate.py": "a client that goes away while it is answered",
    "engine/server/tools/changes.py": "a watch as long as the server lives",
    "engine/server/tools/named.py": "an image that is made while lists are answered without it",
    "engine/strategies/parallel.py": "a watch for the stop of a graph",
    "engine/workflows/workflow.py": "an execution, or a request to pause, whichever comes first",
    "sandbox/host/background.py": "the loop's own end",
    "sandbox/host/broker.py": "calls of a guest, which it may give up one by one",
    "engine/fleet/queue.py": "one look at what runs elsewhere serves all who wait",
    "engine/fleet/remote_lines.py": "a chunk outlives the line that had it sent; `close` waits for all",
    "engine/guest_runs/elsewhere.py": "who waits for a run may be cancelled: then it is asked to stop, and waited for",
    "engine/fleet/sending.py": "an execution is followed while it is waited for",
    "engine/fleet/worker/remote_steps.py": "asking a step to stop, while its end is waited for",
    "engine/fleet/worker/worker.py": "a worker's own threads and its watch, which end with it",
}


def test_tasks_that_are_made_by_hand_say_why() -> None:
    made = re.compile(r"(?<!group\.)(?<!running\.)(?<!watched\.)\b(?:create_task|ensure_future)\(")
    found = {
        path.relative_to(ROOT).as_posix()
        for package in MAY_IMPORT
        for path in (ROOT / package).rglob("*.py")
        if "guest" not in path.relative_to(ROOT).parts[:-1] and made.search(path.read_text(encoding="utf-8"))
    }
    assert found == set(HAND_MADE)


# Threads of engine and composer that are made by hand, and why `asyncio.to_thread` would not do.
THREADS = {
    "composer/composer.py": "counts of uses are written while the next run goes on",
    "engine/cli/commands/serve.py": "the image is made before anybody asks for a run",
    "engine/cli/terminal/background.py": "stdin may never end: nobody waits for the thread",
    "engine/cli/terminal/progress.py": "a line that ticks while the loop is busy",
    "engine/executions/retention.py": "old executions are removed while others run",
    "engine/fleet/database.py": "one listener for all who wait",
    "engine/fleet/members.py": "a heart that beats while the loop is busy",
    "engine/fleet/tool_store.py": "tools are followed for as long as their store is used",
    "engine/fleet/writer.py": "what many threads write is put into one transaction",
    "engine/processes/child.py": "children are ended even when no thread of the pool is free",
    "engine/server/stdio.py": "one thread reads every request",
    "engine/storage/group_commit.py": "one sync for all who ended since the last",
    "engine/storage/removal.py": "many files are removed side by side",
}


def test_threads_that_are_made_by_hand_say_why() -> None:
    made = re.compile(r"\bThread\(|\bThreadPoolExecutor\(|\brun_in_executor\(")
    found = {
        path.relative_to(ROOT).as_posix()
        for package in ("engine", "composer")
        for path in (ROOT / package).rglob("*.py")
        if made.search(path.read_text(encoding="utf-8"))
    }
    assert found == set(THREADS)


def test_processes_are_read_of_in_one_place() -> None:
    """What `/proc/<pid>` says of a process, and who it is, is in `sandbox.children.proc` alone."""
    reads = re.compile(r"/proc/\{[^}]*\}/(?:stat|environ|task)\b")
    for package in MAY_IMPORT:
        for path in (ROOT / package).rglob("*.py"):
            if path != ROOT / "sandbox" / "children" / "proc.py":
                assert not reads.search(path.read_text(encoding="utf-8")), path


def test_the_first_of_several_is_waited_for_in_one_place() -> None:
    """`go_ent.waiting` cancels what it made, whatever happens to the caller."""
    for package in MAY_IMPORT:
        for path in (ROOT / package).rglob("*.py"):
            assert "FIRST_COMPLETED" not in path.read_text(encoding="utf-8"), path


def test_workers_do_not_pay_for_pydantic() -> None:
    heavy = ("pydantic", "asyncio", "fastmcp", "cyclopts")
    code = f"import sys, go_ent.sandbox.worker.zygote; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"


def test_hosts_do_not_pay_for_wasmtime() -> None:
    code = "import sys; from go_ent.sandbox import Sandbox; Sandbox(); print('wasmtime' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("package", [go_ent, sandbox, composer, engine])
def test_exported_members(package: ModuleType) -> None:
    assert package.__all__ == sorted(package.__all__)
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert package.__all__ == sorted(name for names in package.HOMES.values() for name in names)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = package.Nothing


def test_every_status_has_its_outcome() -> None:
    """One table: what a run's status means for an execution, a task, an MCP client and a shell."""
    from typing import get_args

    from go_ent.engine.core.models import TaskStatus
    from go_ent.engine.core.outcomes import OUTCOMES, TASK_EXIT_CODES
    from go_ent.sandbox.host.run import Status

    assert set(OUTCOMES) == set(get_args(Status))
    assert set(TASK_EXIT_CODES) == set(get_args(TaskStatus))
    codes = [outcome.exit_code for outcome in OUTCOMES.values()]
    assert len(set(codes)) == len(codes)
    assert not {2, 12} & set(codes)
    assert all(
        (outcome.exit_code == 0) == (outcome.task == "COMPLETE") == (status == "completed")
        for status, outcome in OUTCOMES.items()
    )


def test_version_is_in_the_changelog() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("name", ["requirements.txt", "benchmarks/requirements.txt", "tests/fuzz/requirements.txt"])
def test_what_is_installed_is_pinned_with_digests_and_without_addresses(name: str) -> None:
    pinned = re.split(r"(?m)^(?=\S)", (ROOT / name).read_text())[2:]
    assert pinned
    for package in pinned:
        assert re.fullmatch(
            r"[a-z0-9-]+==[A-Za-z0-9.+!_-]+( ; [^\n/]+)? \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+", package
        ), package
