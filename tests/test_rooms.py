"""The rooms of each package, and which may import which: the architecture as a table."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

from tests.support import ROOT
from tests.support.code import parsed

PACKAGES = ("sandbox", "composer", "engine")
# From the ground floor to the roof: a room, and the rooms of its package that it imports. Everybody may import a
# package's own exports and its errors. What is not here is not allowed: change this table only with
# docs/architecture.md.
ARROWS = """
sandbox/guest           :
sandbox/media           :
sandbox/messages        :
sandbox/hardening       :
sandbox/children        :
sandbox/worker          : hardening
sandbox/images          : children worker
sandbox/host            : children hardening images media messages worker

composer/project        :
composer/catalogue      : project
composer/sources        : catalogue project
composer/codemode       : catalogue project
composer/composed       : catalogue codemode project
composer                : catalogue codemode composed project sources

engine/adapters         :
engine/tokens           :
engine/core             :
engine/processes        :
engine/strategies       : core
engine/budget           : core
engine/prompts          : core tokens
engine/executions       : core strategies
engine/storage          : core executions
engine/fleet            : budget core executions storage
engine/context          : budget core executions prompts strategies tokens
engine/guest_runs       : core executions processes strategies
engine/runners/base     : core processes
engine/runners/claude   : core processes runners/base
engine/runners/opencode : core processes runners/base
engine/runners/cli      : core guest_runs processes runners/base
engine/runners          : runners/base runners/claude runners/cli runners/opencode
engine/dispatch         : budget context core executions prompts runners runners/base strategies tokens
engine/workflows        : budget core executions processes storage
engine                  : budget context core dispatch executions fleet guest_runs processes prompts runners runners/base storage strategies workflows
engine/fleet/worker     : engine core dispatch executions fleet guest_runs
engine/settings         : budget core prompts runners runners/base
engine/setup            : engine core prompts runners/base settings
engine/server/calls     : engine core executions guest_runs processes strategies
engine/server/tools     : engine adapters context core executions guest_runs processes prompts server/calls strategies
engine/server/http      : engine adapters budget core executions server/calls server/tools
engine/server           : engine adapters core guest_runs server/calls server/http server/tools
engine/console          : engine adapters core executions guest_runs server/calls server/http
engine/console/pages    : engine budget console core executions guest_runs settings setup strategies tokens
engine/cli/terminal     : core storage
engine/cli              : cli/terminal core
engine/cli/inputs       : cli cli/terminal
engine/cli/pictures     : cli/inputs cli/terminal
engine/cli/plans        : cli cli/terminal core engine executions strategies
engine/cli/commands     : engine cli cli/inputs cli/pictures cli/plans cli/terminal context core executions guest_runs prompts
engine/cli/commands     : console console/pages server server/calls server/http settings setup strategies workflows
engine/cli/commands/authoring : engine cli cli/commands cli/inputs cli/terminal core executions guest_runs
engine/cli/commands/shell : engine cli cli/commands cli/terminal core executions guest_runs
engine/cli/commands/fleet : cli cli/commands cli/terminal core executions fleet fleet/worker
engine/cli/commands/servers : cli cli/commands cli/terminal settings setup
engine/cli/commands/setup : cli cli/commands/servers cli/terminal setup
engine/cli/commands/executions : cli cli/commands cli/inputs cli/pictures cli/plans cli/terminal core engine executions guest_runs strategies
"""  # noqa: E501


def allowed() -> dict[str, set[str]]:
    table: dict[str, set[str]] = {}
    for line in filter(None, ARROWS.splitlines()):
        room, _, others = (part.strip() for part in line.partition(":"))
        package = room.split("/")[0]
        table.setdefault(room, set()).update(
            other if other == package else f"{package}/{other}" for other in others.split()
        )
    return table


@functools.cache
def modules(path: Path) -> frozenset[str]:
    """Every module that a file imports, at the top or inside a function."""
    names = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def room_of(path: Path) -> str:
    return str(path.parent.relative_to(ROOT))


def arrows() -> dict[tuple[str, str], str]:
    """Each arrow between two rooms of a package, with one import that makes it."""
    files = {
        ".".join(("go_ent", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    drawn: dict[tuple[str, str], str] = {}
    for path in files.values():
        room = room_of(path)
        for name in modules(path):
            module = name
            while module and module not in files:
                module = module.rpartition(".")[0]
            if not module or files[module].name == "errors.py":
                continue
            other = room_of(files[module])
            exports = other in PACKAGES and files[module].name == "__init__.py"
            if other != room and not exports and room != "sandbox" and other.split("/")[0] == room.split("/")[0]:
                drawn[room, other] = f"{path.relative_to(ROOT)} imports {name}"
    return drawn


def test_rooms_import_what_the_table_allows() -> None:
    table = allowed()
    for (room, other), example in arrows().items():
        assert room in table, f"{example}: {room} is not in the table; add it at its place"
        assert other in table[room], f"{example}: {room} may not import {other}"


def test_the_table_has_no_arrow_that_is_not_there() -> None:
    assert {(room, other) for room, others in allowed().items() for other in others} <= set(arrows())


def test_every_room_stands_above_those_that_it_imports() -> None:
    """So there are no cycles between rooms."""
    below: set[str] = set()
    for room, others in allowed().items():
        assert others <= below, f"{room} imports {sorted(others - below)}, which stand above it"
        below.add(room)


def test_no_room_is_crowded() -> None:
    """A room that holds more wants a wall. The guest's code is one program, frozen into the image."""
    sizes = {room: len(list((ROOT / room).glob("*.py"))) for room in allowed() if room != "sandbox/guest"}
    assert {room: size for room, size in sizes.items() if size > 20} == {}


def test_nothing_is_imported_by_a_bare_name() -> None:
    """In a checkout `import sandbox` would load a second copy of the package."""
    bare = re.compile(rf"\b(?:import|from)\b.*(?<![\w.])(?:{'|'.join(PACKAGES)})\b")
    for folder in (*PACKAGES, "tests", "benchmarks", "examples", "docs", "src/go_ent", ".ci"):
        for path in (ROOT / folder).rglob("*.py"):
            if not {"corpus", "everyday", "guest"} & set(path.parts) and bare.search(path.read_text(encoding="utf-8")):
                assert not {name for name in modules(path) if name.partition(".")[0] in PACKAGES}, path


def test_no_module_is_long() -> None:
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    assert {name: count for name, count in lines.items() if count > 600} == {}
