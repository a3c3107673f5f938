"""`go-ent shell`: from a pipe, and on a terminal."""

from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest

from go_ent.composer import Composer
from go_ent.engine.cli.commands.recorded import guests_for
from go_ent.engine.cli.commands.shell.completion import offers
from go_ent.engine.cli.commands.shell.history import MOST_BYTES, history_file
from go_ent.engine.cli.commands.shell.session import ShellSession
from go_ent.sandbox import Sandbox
from tests.composer.conftest import DOUBLE
from tests.engine.cli.test_signals import Terminal
from tests.support.executions import FileStore
from tests.support.shell import Done, go_ent


@pytest.fixture
def made(project: Path) -> Path:
    (project / "double.py").write_text(DOUBLE)
    assert go_ent("tool", "add", "double.py", cwd=project).returncode == 0
    return project


def typed(project: Path, *lines: str) -> Done:
    return go_ent("shell", stdin="\n".join(lines).encode(), cwd=project)


def test_pieces_share_a_session_and_are_on_record(made: Path) -> None:
    lines = "n = await tools.double(n=4)", "def add(m):", "    return n + m", "add(2)", "print('x')", "'text'"
    done = typed(made, *lines, "exit", "'not reached'")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"10\nx\ntext\n", b"")
    rows = FileStore(made).rows(10)
    assert [row.status for row in rows] == ["completed"] * 5


def test_what_was_typed_becomes_a_tool(made: Path) -> None:
    lines = "1/0", "n = await tools.double(n=4)", "n + 1", "%save nine 2-3", "await tools.nine()", "%save ten 1"
    done = typed(made, *lines)
    assert b"nine: version 1, 1 example passed\ncall it: await tools.nine()\n" in done.stdout
    assert done.stdout.endswith(b"\n9\n")
    assert b"[1] is no piece that completed" in done.stderr
    assert done.returncode == 2
    assert go_ent("tool", "test", "nine", cwd=made).stdout == b"ok     nine example 1\n"
    done = typed(made, "size = 4", "await tools.double(n=size)", "%save twice size", "await tools.twice(size=5)")
    assert done.stdout.endswith(b"call it: await tools.twice(size: int = 4)\nchange it: go-ent tool edit twice\n10\n")


def test_the_shell_s_own_commands(made: Path, tmp_path: Path) -> None:
    copy = tmp_path / "a copy.txt"
    done = typed(
        made,
        "open('x.txt', 'w').write('hi')",
        "%files",
        f"%files x.txt '{copy}'",
        f"%files x.txt '{copy}'",
        "double?",
        "%limits timeout_s=5",
        "%limits timeout_s=500",
        "%history",
        "%reset",
        "%files",
        "%save",
        "%none",
    )
    assert b"         2  x.txt\n" in done.stdout
    assert copy.read_text() == "hi"
    assert b"async def double(self, n: int) -> int:" in done.stdout
    assert b"timeout_s         5.0\n" in done.stdout
    assert b"[1] open('x.txt', 'w').write('hi')\n" in done.stdout
    told = done.stderr.decode().splitlines()
    assert told[0] == f"go-ent: {copy} is there already: give another path"
    assert told[1].startswith("go-ent: timeout_s=500.0 is wider")
    assert told[2:4] == ["names, files and pieces are forgotten", "no files"]
    assert told[4].startswith("go-ent: %save needs a name")
    assert told[5].startswith("go-ent: there is no %none; there are %save, ")


def test_what_a_limit_ended_leaves_the_names_as_they_were(made: Path) -> None:
    done = typed(made, "n = await tools.double(n=4)", "%limits timeout_s=0.3", "while True: pass", "n")
    assert done.stdout.endswith(b"\n8\n")
    assert b"names and files are back as they were before it" in done.stderr
    assert sum(row.title.startswith("code: n = await") for row in FileStore(made).rows(10)) == 1


def test_outside_a_project(tmp_path: Path) -> None:
    done = go_ent("shell", cwd=tmp_path)
    assert (done.returncode, b"go-ent init" in done.stderr) == (2, True)


@pytest.fixture
async def shell(project: Path, shared_box: Sandbox) -> ShellSession:
    def search(query: str, limit: int = 10) -> list[str]:
        """Search pages. Slowly."""
        return []

    async with Composer.open(project, box=shared_box, tools={"web": {"search": search}, "double": search}) as composer:
        composer.grants = composer.code.grants = composer.grants.everything()
        await composer.catalogue.load_known()
        async with guests_for(composer) as guests:
            return ShellSession(composer, guests, None)


async def test_completion(shell: ShellSession) -> None:
    def texts(before: str) -> list[str]:
        return [offer.text for offer in offers(shell, before)]

    assert texts("x = await tools.") == ["double", "results.", "web."]
    assert texts("tools.web.") == texts("?web.") == ["search"]
    assert texts("tools.web.search(") == ["query=", "limit="]
    assert texts("tools.web.search(query='x', ") == ["limit="]
    assert texts("tools.web.search(\n    li") == ["limit=", "list"]
    assert texts("%sa") == ["%save"]
    assert "print" in texts("pri")
    assert texts("other.") == []
    (offer,) = offers(shell, "tools.web.s")
    assert (offer.replaces, offer.about) == (1, "Search pages.")


def test_history_is_private_and_bounded(project: Path, tmp_path: Path) -> None:
    path = history_file(project)
    assert path is not None
    assert project not in path.parents
    path.write_bytes(b"\n# 1\n+first\n" + b"\n# 2\n+x = 1\n" * (MOST_BYTES // 10))
    path.chmod(0o644)
    assert history_file(project) == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_size <= MOST_BYTES
    assert path.read_bytes().startswith(b"# 2\n+x = 1\n")
    assert history_file(tmp_path) != path


@pytest.mark.more
def test_on_a_terminal_ctrl_c_ends_the_run_and_not_the_shell(made: Path) -> None:
    terminal = Terminal(made, "shell")

    def type_(keys: str, until: str) -> None:
        terminal.said = b""
        terminal.type(keys.encode())
        terminal.until(until.encode())

    try:
        terminal.until(b"[1]")
        terminal.type(b"\x1b[1;1R")  # where the cursor is, which it asks for
        type_("n = await tools.dou\t", "ble")
        type_("(n=4)\r", "[2]")
        terminal.type(b"import time; time.sleep(60)\r")
        while "running" not in [row.status for row in FileStore(made).rows(3)]:
            time.sleep(0.05)
        type_("\x03", "names and files are back as they were before it")
        terminal.until(b"[3]")
        terminal.type(b"a line that is dropped\x03")
        type_("n * 1000 + 1\r", "8001")
        type_("for i in range(2):\rprint('got', i + 41)\r\r", "got 42")
        terminal.until(b"[5]")
        terminal.type(b"\x04")
        assert terminal.end() == 0
    finally:
        terminal.close()


def test_typescript_is_typed_and_saved(made: Path) -> None:
    lines = "let n: number = 4;", "const twice = await tools.double({ n });", "twice + 1", "%save nine n", "?double"
    done = go_ent("shell", "-l", "ts", stdin="\n".join(lines).encode(), cwd=made)
    assert done.returncode == 0, done.stderr
    assert b"9\nnine: version 1, 1 example passed\ncall it: await tools.nine({ n?: number })\n" in done.stdout
    assert b"double(args: { n: number }): Promise<number>;" in done.stdout
    assert (made / ".go-ent" / "composed-tools" / "nine.ts").exists()
