"""`go-ent install`: an entry in a client's configuration, and not a byte more."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_ent.engine.core.errors import BadServerName, CannotInstall
from go_ent.engine.setup import install as installing
from go_ent.engine.setup.clients import Client, Scope
from go_ent.engine.setup.commented_json import drop_commented, put_commented
from go_ent.engine.setup.install import plan, write
from go_ent.engine.setup.json_edit import NotEditable, drop, put, read
from tests.engine.cli.test_signals import Terminal
from tests.support.shell import Done, go_ent

PROGRAM = Path(sys.executable).parent / "go-ent"
FILES: list[tuple[Client, Scope, str, str]] = [
    ("claude", "project", "project/.mcp.json", "mcpServers"),
    ("claude", "user", "home/.claude.json", "mcpServers"),
    ("opencode", "project", "project/opencode.json", "mcp"),
    ("opencode", "user", "home/.config/opencode/opencode.json", "mcp"),
    ("cursor", "project", "project/.cursor/mcp.json", "mcpServers"),
    ("cursor", "user", "home/.cursor/mcp.json", "mcpServers"),
    ("vscode", "project", "project/.vscode/mcp.json", "servers"),
    ("vscode", "user", "home/.config/Code/User/mcp.json", "servers"),
    ("claude-desktop", "user", "home/.config/Claude/claude_desktop_config.json", "mcpServers"),
    ("gemini", "project", "project/.gemini/settings.json", "mcpServers"),
    ("gemini", "user", "home/.gemini/settings.json", "mcpServers"),
    ("windsurf", "user", "home/.codeium/windsurf/mcp_config.json", "mcpServers"),
    ("zed", "project", "project/.zed/settings.json", "context_servers"),
    ("zed", "user", "home/.config/zed/settings.json", "context_servers"),
]
TYPED = ("claude", "cursor", "vscode")


class Desk:
    """A home and a project of one's own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.project = folder, folder / "home", folder / "project"
        self.home.mkdir()
        (self.project / ".go-ent").mkdir(parents=True)
        self.file = self.project / ".mcp.json"
        self.environment = {"HOME": str(self.home), "XDG_CONFIG_HOME": "", "CLAUDE_CONFIG_DIR": ""}

    def install(self, *arguments: str, client: str = "claude") -> Done:
        return go_ent("install", client, *arguments, cwd=self.project, env=self.environment)

    def entry(self, client: str = "claude") -> dict[str, Any]:
        arguments = ["serve", "--profile", "code", "--project", str(self.project)]
        if client == "opencode":
            return {"type": "local", "command": [str(PROGRAM), *arguments]}
        entry = {"command": str(PROGRAM), "args": arguments}
        return {"type": "stdio", **entry} if client in TYPED else entry

    def backups(self) -> list[Path]:
        return sorted(self.folder.rglob("*.bak-*"))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


class TestTheEntry:
    @pytest.mark.parametrize(("client", "scope", "file", "section"), FILES)
    def test_is_where_the_client_looks_and_as_it_reads_it(
        self, desk: Desk, client: Client, scope: Scope, file: str, section: str
    ) -> None:
        done = desk.install("--scope", scope, "--yes", client=client)
        assert (done.returncode, done.stderr) == (0, b"")
        path = desk.folder / file
        assert json.loads(path.read_text()) == {section: {"go-ent": desk.entry(client)}}
        assert done.stdout.decode().endswith(f"go-ent was written to {path}\n")
        assert stat.S_IMODE(path.stat().st_mode) == (0o644 if scope == "project" else 0o600)
        assert desk.backups() == []

    def test_names_a_command_that_is_there_by_its_full_path(self) -> None:
        assert installing.command() == PROGRAM
        assert os.access(PROGRAM, os.X_OK)

    def test_is_found_by_claude_code_in_the_folder_that_it_is_told(self, desk: Desk) -> None:
        elsewhere = desk.folder / "claude"
        elsewhere.mkdir()
        desk.environment["CLAUDE_CONFIG_DIR"] = str(elsewhere)
        desk.install("--scope", "user", "--yes")
        assert (elsewhere / ".claude.json").exists()
        assert not (desk.home / ".claude.json").exists()

    def test_goes_into_the_file_that_opencode_has(self, desk: Desk) -> None:
        (desk.project / "opencode.jsonc").write_text("{}")
        desk.install("--yes", client="opencode")
        assert "go-ent" in (desk.project / "opencode.jsonc").read_text()
        assert not (desk.project / "opencode.json").exists()

    def test_is_the_projects_also_from_a_folder_below(self, desk: Desk) -> None:
        below = desk.project / "a" / "b"
        below.mkdir(parents=True)
        assert go_ent("install", "claude", "--yes", cwd=below, env=desk.environment).returncode == 0
        assert json.loads(desk.file.read_text())["mcpServers"]["go-ent"] == desk.entry()

    def test_may_have_another_name(self, desk: Desk) -> None:
        desk.install("--yes", "--name", "my_tools")
        desk.install("--yes")
        assert list(json.loads(desk.file.read_text())["mcpServers"]) == ["my_tools", "go-ent"]

    @pytest.mark.parametrize("name", ["", "-x", "__proto__", "a b", "ä", "x" * 33, 'a"b', "a/b"])
    def test_has_a_name_that_clients_take(self, desk: Desk, name: str) -> None:
        done = desk.install("--yes", f"--name={name}")
        assert done.returncode == 2
        assert b"letters, digits" in done.stderr
        with pytest.raises(BadServerName):
            plan("claude", desk.project, name=name)

    @pytest.mark.parametrize("name", ["${HOME}", "{env:HOME}", "{file:x}", "%TEMP%"])
    def test_has_no_part_that_a_client_would_replace(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(CannotInstall, match="clients would replace a part of"):
            plan("opencode", tmp_path / name)


class TestAsking:
    def test_without_a_terminal_only_yes_writes(self, desk: Desk) -> None:
        done = desk.install()
        assert done.returncode == 1
        assert b'+    "go-ent": {' in done.stdout
        assert done.stderr == b"nothing was changed: pass --yes to skip the question\n"
        assert not desk.file.exists()

    def test_a_dry_run_shows_and_writes_nothing(self, desk: Desk) -> None:
        done = desk.install("--dry-run", "--yes")
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode().splitlines()[:3] == ["--- /dev/null", f"+++ {desk.file}", "@@ -0,0 +1,15 @@"]
        assert not desk.file.exists()

    @pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"\n", 1), (b"n\n", 1), (b"\x04", 1)])
    def test_a_person_sees_the_change_in_colours_and_decides(
        self, desk: Desk, answer: bytes, code: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        terminal = Terminal(desk.project, "install", "claude")
        try:
            terminal.until(b"[y/N] ")
            assert b'\x1b[32m+    "go-ent": {\x1b[0m' in terminal.said
            terminal.type(answer)
            assert terminal.end() == code
        finally:
            terminal.close()
        assert desk.file.exists() is (code == 0)

    def test_what_is_there_is_not_asked_about_again(self, desk: Desk) -> None:
        desk.install("--yes")
        before = desk.file.stat()
        done = desk.install()
        assert (done.returncode, done.stdout.decode()) == (0, f"go-ent is already in {desk.file}\n")
        assert (desk.file.stat().st_ino, desk.file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
        assert desk.backups() == []

    def test_json_says_what_was_done(self, desk: Desk) -> None:
        desk.file.write_text("{}")
        for arguments, state in (
            (["--dry-run"], "would change"),
            ([], "not changed"),
            (["--yes"], "written"),
            ([], "unchanged"),
        ):
            said = json.loads(desk.install("--json", *arguments).stdout)
            assert (said["state"], said["file"], said["entry"]) == (state, str(desk.file), desk.entry())
            assert bool(said["diff"]) is (state != "unchanged")
            assert said["backup"] == (str(desk.backups()[0]) if state == "written" else None)
        assert json.loads(desk.install("--json", "--remove", "--yes").stdout)["state"] == "removed"


class TestWhatIsAlreadyThere:
    def test_other_entries_stay_as_they_are_to_the_byte(self, desk: Desk) -> None:
        before = (
            '{\n\t"a" : [1,2],   "mcpServers":\t{\n\t\t"x": {"command":"y", "env":{"N":1e400}}\n\t},\n\t"z":"\\u00e4ä"}'
        )
        desk.file.write_text(before)
        assert desk.install("--yes").returncode == 0
        after = desk.file.read_text()
        at = before.index("\n\t},")
        assert after.startswith(before[:at])
        assert after.endswith(before[at:])
        assert json.loads(after)["mcpServers"]["go-ent"] == desk.entry()
        assert after[at : len(after) - len(before[at:])].startswith(',\n\t\t"go-ent": {\n\t\t\t"type"')

    def test_a_copy_is_kept_with_the_mode_and_so_is_the_mode(self, desk: Desk) -> None:
        desk.file.write_text('{"a": 1}')
        desk.file.chmod(0o640)
        said = desk.install("--yes").stdout.decode()
        (backup,) = desk.backups()
        assert said.endswith(f"; as it was: {backup.name}\n")
        assert backup.read_text() == '{"a": 1}'
        assert [stat.S_IMODE(path.stat().st_mode) for path in (backup, desk.file)] == [0o640, 0o640]

    def test_copies_of_the_same_second_do_not_replace_each_other(self, desk: Desk) -> None:
        desk.file.write_text("{}")
        for number in range(3):
            desk.install("--yes", "--name", f"n{number}")
        assert len(desk.backups()) == 3

    def test_what_a_person_added_to_the_entry_is_kept(self, desk: Desk) -> None:
        mine = {"type": "stdio", "command": "old", "args": ["serve"], "env": {"A": "b"}, "disabled": True}
        desk.file.write_text(json.dumps({"mcpServers": {"go-ent": mine}}))
        desk.install("--yes")
        assert json.loads(desk.file.read_text())["mcpServers"]["go-ent"] == {
            **desk.entry(),
            "env": {"A": "b"},
            "disabled": True,
        }
        assert b"already in" in desk.install().stdout

    def test_an_entry_for_a_server_of_another_kind_is_replaced_whole(self, desk: Desk) -> None:
        desk.file.write_text('{"mcpServers": {"go-ent": {"type": "http", "url": "http://x", "headers": {}}}}')
        desk.install("--yes")
        assert json.loads(desk.file.read_text())["mcpServers"]["go-ent"] == desk.entry()

    @pytest.mark.parametrize("order", [0, 1, 2])
    def test_removing_takes_ours_out_alone(self, desk: Desk, order: int) -> None:
        others = [("a", {"command": "a"}), ("b", {"command": "b"})]
        others.insert(order, ("go-ent", desk.entry()))
        desk.file.write_text(json.dumps({"mcpServers": dict(others), "z": 1}, indent=4))
        done = desk.install("--remove", "--yes")
        assert done.stdout.decode().splitlines()[-1].startswith(f"go-ent was removed from {desk.file}; as it was: ")
        left = {"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}, "z": 1}
        assert desk.file.read_text() == json.dumps(left, indent=4)
        assert desk.install("--remove").stdout.decode() == f"go-ent is not in {desk.file}\n"

    def test_removing_from_no_file_makes_none(self, desk: Desk) -> None:
        assert desk.install("--remove", "--yes").returncode == 0
        assert not desk.file.exists()

    def test_the_secrets_of_neighbours_are_not_shown(self, desk: Desk) -> None:
        servers = {"x": {"command": "x", "env": {"TOKEN": "hunter2"}}}
        mine = {"command": "/go-ent", "args": ["serve", "--token", "hunter2"]}
        near = {"mcpServers": {**servers, "go-ent": mine, "z": "hunter2"}}
        for document in ({"mcpServers": servers}, {"mcpServers": {}, "t": "hunter2"}, {"t": "hunter2"}, near):
            for form in (None, 0, 2):
                desk.file.write_text(json.dumps(document, indent=form))
                for remove in (False, "go-ent" in document.get("mcpServers", {})):
                    said = "\n".join(plan("claude", desk.project, remove=remove).diff())
                    assert '"go-ent": {' in said
                    assert "ter2" not in said
                    assert "TOKEN" not in said
        assert b"ter2" not in desk.install("--dry-run").stdout + desk.install("--dry-run", "--json").stdout

    def test_an_entry_of_many_lines_is_compared_soon(self, desk: Desk) -> None:
        mine = {"url": "x", "headers": {f"h{number}": "" for number in range(50_000)}}
        desk.file.write_text(json.dumps({"mcpServers": {"go-ent": mine}}))
        assert len(plan("claude", desk.project).diff()) > 50_000

    def test_of_what_stays_in_the_entry_the_names_are_shown(self, desk: Desk) -> None:
        mine = {"command": "old", "args": ["serve"], "env": {"A": "s3cret"}, "note": ["s3cret"]}
        desk.file.write_text(json.dumps({"mcpServers": {"go-ent": mine}}))
        said = desk.install("--dry-run").stdout.decode()
        assert said.splitlines()[:6] == [
            f"--- {desk.file}",
            f"+++ {desk.file}",
            "@@ mcpServers @@",
            '     "go-ent": {',
            '-      "command": "old",',
            f'+      "command": "{PROGRAM}",',
        ]
        assert '       "env": {\n         "A": "(hidden)"\n       },\n       "note": "(hidden)"\n' in said
        assert json.loads(desk.install("--json", "--yes").stdout)["kept"] == ["env.A", "note"]
        assert (
            desk.install().stdout.decode()
            == f"go-ent is already in {desk.file}, with what is not of this program: env.A, note\n"
        )
        assert "s3cret" not in said

    def test_escapes_in_the_file_do_not_reach_the_terminal(self, desk: Desk) -> None:
        desk.file.write_text('{"mcpServers": {"go-ent": {"command": "\x7f\u009b31m"}}}')
        said = desk.install("--dry-run").stdout.decode()
        assert "\x7f" not in said
        assert "\u009b" not in said


class TestFilesThatAreLeftToAPerson:
    """Nothing is written, the reason is said, and the entry to put in."""

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ('{"mcpServers": {"go-ent": {/* mine */}}}', "it has comments within the entry"),
            ('{"mcpServers": ', "it is not JSON: line 1"),
            ('{"a": 1} {"b": 2}', "it is not JSON: line 1, column 10: Extra data"),
            ("[]", "it holds a list, not an object"),
            ("null", "it holds null, not an object"),
            ("3", "it holds a text or a number"),
            ('{"mcpServers": []}', "'mcpServers' in it is not an object"),
            ('{"mcpServers": {}, "mcpServers": {"a": {}}}', "'mcpServers' is in it twice"),
            ('{"mcpServers": {"go-ent": {}, "go-ent": 1}}', "'go-ent' is in it twice"),
            ('{"a": {"b": 1, "b": 2}, "a": 3}', ""),
            ('{"a": NaN}', "NaN is not JSON"),
            ('{"a": "' + "/*" * 200_000, "it is not JSON"),
            ("/*" * 200_000, "it is not JSON"),
            ('"\\"' * 200_000, "it is not JSON"),
            ('{"a":' * 100_000, "it is nested too deep"),
            ('{"a":' * 100_000 + "1" + "}" * 100_000, "it is nested too deep"),
        ],
    )
    def test_what_is_no_plain_json_object(self, desk: Desk, text: str, why: str) -> None:
        desk.file.write_text(text)
        done = desk.install("--yes")
        if not why:  # members that are twice elsewhere are none of ours
            assert done.returncode == 0
            return
        assert done.returncode == 12
        assert f"{desk.file} can't be changed by a program: " in done.stderr.decode()
        assert why in done.stderr.decode()
        assert json.loads(done.stdout) == {"mcpServers": {"go-ent": desk.entry()}}
        assert desk.file.read_text() == text
        assert desk.backups() == []

    @pytest.mark.parametrize("data", [b"\xff\xfe{}", b'{"a": "\x00\xff"}'])
    def test_what_is_no_text(self, desk: Desk, data: bytes) -> None:
        desk.file.write_bytes(data)
        assert desk.install("--yes").returncode == 12
        assert desk.file.read_bytes() == data

    def test_a_huge_one(self, desk: Desk) -> None:
        with desk.file.open("wb") as file:
            file.truncate(installing.MAX_FILE + 1)
        done = desk.install("--yes")
        assert (done.returncode, b"is larger than 32 MB" in done.stderr) == (12, True)

    def test_a_read_only_one(self, desk: Desk) -> None:
        desk.file.write_text("{}")
        desk.file.chmod(0o444)
        done = desk.install("--yes")
        assert (done.returncode, b"is read-only" in done.stderr) == (12, True)
        assert desk.file.read_text() == "{}"

    @pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
    def test_one_that_is_no_file(self, desk: Desk, make: Callable[[Path], None]) -> None:
        make(desk.file)
        done = desk.install("--yes")
        assert (done.returncode, b"can't be read: " in done.stderr) == (12, True)

    def test_a_folder_that_is_a_file(self, desk: Desk) -> None:
        (desk.project / ".vscode").write_text("")
        assert desk.install("--yes", client="vscode").returncode == 12

    def test_a_link_out_of_the_project(self, desk: Desk) -> None:
        target = desk.home / ".claude.json"
        target.write_text("{}")
        desk.file.symlink_to(target)
        done = desk.install("--yes")
        assert done.returncode == 12
        assert f"{desk.file} is a link that leads out of {desk.project}, to {target}" in done.stderr.decode()
        assert target.read_text() == "{}"

    def test_a_folder_that_is_a_link_out_of_the_project(self, desk: Desk) -> None:
        (desk.project / ".cursor").symlink_to(desk.home)
        assert desk.install("--yes", client="cursor").returncode == 12
        assert os.listdir(desk.home) == []

    def test_a_link_that_leads_round_in_a_circle(self, desk: Desk) -> None:
        desk.file.symlink_to(desk.file)
        assert desk.install("--yes").returncode == 12

    def test_json_says_so_too(self, desk: Desk) -> None:
        desk.file.write_text("//")
        said = json.loads(desk.install("--json", "--yes").stdout)
        assert (said["state"], said["entry"], said["diff"]) == ("by hand", desk.entry(), [])

    def test_what_go_ent_did_not_write_is_not_removed(self, desk: Desk) -> None:
        other = {"command": str(PROGRAM), "args": ["serve", "--project", "/elsewhere"]}
        for entry, why in (({"command": "npx"}, "it starts something else"), (other, "another project, /elsewhere")):
            text = json.dumps({"mcpServers": {"go-ent": entry}})
            desk.file.write_text(text)
            done = go_ent("uninstall", "claude", "--yes", cwd=desk.project, env=desk.environment)
            assert (done.returncode, done.stdout) == (12, b"")
            assert why in done.stderr.decode()
            assert desk.file.read_text() == text


class TestComments:
    """Every one stays where it is, and an entry that goes leaves the file as it was."""

    @pytest.mark.parametrize(
        "text",
        [
            '// top\n{\n  "a": 1, // one\n  "mcpServers": {\n    // mine\n    "x": {} // why\n  } // end\n}\n',
            '{\n  "mcpServers": {\n    "x": {}, // x, y\n    /* last */\n  },\n}\n',
            '{\r\n\t"mcpServers": {\r\n\t\t"x": {}, // a {\r\n\t},\r\n}\r\n',
            '{\n  "mcpServers": {\n    "x": "//", // "\n    "y": "/*"\n  }\n}\n',
        ],
    )
    def test_stay_when_an_entry_comes_and_goes(self, desk: Desk, text: str) -> None:
        desk.file.write_bytes(text.encode())
        assert desk.install("--yes").returncode == 0
        made = desk.file.read_bytes().decode()
        assert read(made)[0]["mcpServers"]["go-ent"] == desk.entry()
        assert re.findall(r" //.*| /\*.*", made) == re.findall(r" //.*| /\*.*", text)
        assert b"already in" in desk.install("--yes").stdout
        assert go_ent("uninstall", "claude", "--yes", cwd=desk.project, env=desk.environment).returncode == 0
        assert desk.file.read_bytes().decode() == text

    @pytest.mark.parametrize(
        "text", ['{"mcpServers": {} /* mine */}', "{\n  // none\n}", '{"mcpServers": {"a": {},},}']
    )
    def test_stay_wherever_they_are(self, desk: Desk, text: str) -> None:
        desk.file.write_text(text)
        assert desk.install("--yes").returncode == 0
        assert read(desk.file.read_text())[0]["mcpServers"]["go-ent"] == desk.entry()

    @settings(deadline=None, max_examples=60)
    @given(st.lists(st.sampled_from(["// x\n", "/* , */", "\n", " ", "\n\n  "]), min_size=6, max_size=6), st.booleans())
    def test_stay_among_any_white_space(self, gaps: list[str], trailing: bool) -> None:
        a, b, c, d, e, f = gaps
        text = f'{{{a}"s": {{{b}"x": 1{c}{"," if trailing else ""}{d}}}{e},{f}"z": [1, 2,],}}'
        path, entry = ("s", "go-ent"), {"command": "x"}
        made = put_commented(text, path, entry)
        assert read(made)[0] == {"s": {"x": "1", "go-ent": entry}, "z": ["1", "2"]}
        assert read(drop_commented(made, path))[0] == read(text)[0]


class TestCodex:
    """Its file is TOML."""

    def test_an_entry_comes_and_goes(self, desk: Desk) -> None:
        file = desk.home / ".codex/config.toml"
        file.parent.mkdir()
        text = '# mine\nmodel = "x"\n\n[mcp_servers.a]\ncommand = "a" # c\n\n[tui]\nx = 1\n'
        file.write_text(text)
        done = desk.install("--scope", "user", "--yes", client="codex")
        assert done.returncode == 0
        assert b'+[mcp_servers.go-ent]\n+command = "' in done.stdout
        assert tomllib.loads(file.read_text())["mcp_servers"] == {"a": {"command": "a"}, "go-ent": desk.entry("codex")}
        assert b"already in" in desk.install("--scope", "user", "--yes", client="codex").stdout
        desk.install("--scope", "user", "--yes", "--remove", client="codex")
        assert file.read_text() == text

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("mcp_servers = 3", "'mcp_servers' in it is not an object"),
            ("a = ", "it is not TOML"),
            ("mcp_servers = {}", ""),
            ("\x00", "it is not TOML"),
        ],
    )
    def test_what_can_t_be_edited_is_left(self, desk: Desk, text: str, why: str) -> None:
        file = desk.project / ".codex/config.toml"
        file.parent.mkdir()
        file.write_text(text)
        done = desk.install("--yes", client="codex")
        assert (done.returncode == 12 and file.read_text() == text) or tomllib.loads(file.read_text())["mcp_servers"]
        assert why in done.stderr.decode()


class TestAnyOtherClient:
    def test_gets_the_entry_printed(self, desk: Desk) -> None:
        done = go_ent("install", "--print", cwd=desk.project, env=desk.environment)
        assert json.loads(done.stdout) == {"mcpServers": {"go-ent": desk.entry("any")}}
        done = go_ent("install", "zed", "--print", "--name", "mine", cwd=desk.project, env=desk.environment)
        assert json.loads(done.stdout) == {"context_servers": {"mine": desk.entry("any")}}
        assert list(desk.project.iterdir()) == [desk.project / ".go-ent"]

    def test_is_told_so(self, desk: Desk) -> None:
        done = go_ent("install", cwd=desk.project, env=desk.environment)
        assert (done.returncode, b"for any other: go-ent install --print" in done.stderr) == (2, True)
        assert b"for the user alone" in desk.install("--scope", "project", client="windsurf").stderr
        assert desk.install("--yes", client="windsurf").returncode == 0


class TestAnEntryThatCameWithTheProject:
    """It does not get the person's word for what the server runs or trusts."""

    @pytest.mark.parametrize(
        "name",
        [
            "GO_ENT_TRUST_PROJECT",
            "GO_ENT__X",
            "LD_PRELOAD",
            "PYTHONPATH",
            "PATH",
            "HOME",
            "XDG_DATA_HOME",
            "NODE_OPTIONS",
            "Path",
        ],
    )
    @pytest.mark.parametrize("ours", [True, False])
    def test_is_refused_with_what_was_found(self, desk: Desk, name: str, ours: bool) -> None:
        entry = {**(desk.entry() if ours else {"command": "x"}), "env": {"A": "b", name: "s3cret"}}
        text = json.dumps({"mcpServers": {"go-ent": entry}})
        desk.file.write_text(text)
        with pytest.raises(
            CannotInstall, match=rf"what the server runs or trusts: env\.{name}\. Remove that .* --name"
        ) as caught:
            plan("claude", desk.project)
        assert "s3cret" not in str(caught.value)
        assert desk.file.read_text() == text

    def test_is_refused_by_the_command_which_writes_beside_it_and_removes_it(self, desk: Desk) -> None:
        entry = {**desk.entry(), "env": {"GO_ENT_TRUST_PROJECT": "1"}}
        desk.file.write_text(json.dumps({"mcpServers": {"go-ent": entry}}))
        done = desk.install("--yes")
        assert (done.returncode, done.stdout) == (12, b"")
        assert b"env.GO_ENT_TRUST_PROJECT" in done.stderr
        assert desk.install("--yes", "--name", "mine").returncode == 0
        assert desk.install("--yes", "--remove").returncode == 0
        assert json.loads(desk.file.read_text())["mcpServers"] == {"mine": desk.entry()}

    @pytest.mark.parametrize(
        ("client", "added"),
        [
            ("opencode", {"environment": {"LD_PRELOAD": "x"}}),
            ("vscode", {"envFile": ".env"}),
            ("cursor", {"envFile": ""}),
        ],
    )
    def test_is_refused_as_each_client_has_it(self, desk: Desk, client: Client, added: dict[str, Any]) -> None:
        made = plan(client, desk.project)
        made.file.parent.mkdir(exist_ok=True)
        made.file.write_text(json.dumps({made.section: {"go-ent": {**made.entry, **added}}}))
        with pytest.raises(CannotInstall, match="what the server runs or trusts"):
            plan(client, desk.project)

    def test_is_refused_in_a_file_with_comments_too(self, desk: Desk) -> None:
        entry = {**desk.entry(), "env": {"PATH": "."}}
        desk.file.write_text("// mine\n" + json.dumps({"mcpServers": {"go-ent": entry}}))
        with pytest.raises(CannotInstall, match=r"env\.PATH"):
            plan("claude", desk.project)

    def test_in_the_persons_own_file_it_is_theirs(self, desk: Desk) -> None:
        entry = {**desk.entry(), "env": {"PATH": "/bin"}}
        (desk.home / ".claude.json").write_text(json.dumps({"mcpServers": {"go-ent": entry}}))
        done = desk.install("--scope", "user")
        assert (done.returncode, b"env.PATH" in done.stdout) == (0, True)


class TestFilesThatAreUnusual:
    def test_a_link_within_the_project_is_said_and_followed(self, desk: Desk) -> None:
        target = desk.project / "shared.json"
        target.write_text("{}")
        desk.file.symlink_to(target)
        done = desk.install("--yes")
        assert done.returncode == 0
        assert done.stderr.decode() == f"{desk.file} is a link to {target}\n"
        assert desk.file.is_symlink()
        assert "go-ent" in target.read_text()

    @pytest.mark.parametrize("text", ["", " \n", "\ufeff", '\ufeff{"a": 1}'])
    def test_an_empty_one_and_one_that_begins_with_a_mark(self, desk: Desk, text: str) -> None:
        desk.file.write_text(text)
        assert desk.install("--yes").returncode == 0
        after = desk.file.read_text()
        assert after.startswith("\ufeff") is text.startswith("\ufeff")
        assert json.loads(after.removeprefix("\ufeff"))["mcpServers"] == {"go-ent": desk.entry()}

    def test_line_ends_stay_what_they_are(self, desk: Desk) -> None:
        desk.file.write_bytes(b'{\r\n  "a": 1\r\n}\r\n')
        desk.install("--yes")
        data = desk.file.read_bytes()
        assert data.count(b"\n") == data.count(b"\r\n") > 5

    def test_one_that_changes_meanwhile_is_left_as_it_is(self, desk: Desk) -> None:
        desk.file.write_text("{}")
        made = plan("claude", desk.project)
        desk.file.write_text('{"new": 1}')
        with pytest.raises(CannotInstall, match="was changed meanwhile"):
            write(made)
        assert desk.file.read_text() == '{"new": 1}'

    def test_one_that_appears_meanwhile_is_left_as_it_is(self, desk: Desk) -> None:
        made = plan("claude", desk.project)
        desk.file.write_text('{"new": 1}')
        with pytest.raises(CannotInstall, match="was changed meanwhile"):
            write(made)
        assert desk.file.read_text() == '{"new": 1}'

    def test_a_write_that_fails_leaves_nothing_behind(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        desk.file.write_text("{}")
        monkeypatch.setattr(os, "replace", full)
        done = desk.install("--yes")
        monkeypatch.undo()
        assert (done.returncode, b"can't be written: No space left on device" in done.stderr) == (12, True)
        assert desk.file.read_text() == "{}"
        assert not list(desk.project.glob(".tmp-*"))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
SERVERS = st.dictionaries(st.sampled_from(["a", "b", "go-ent", "servers", '"', "{"]), VALUES, max_size=4)
FORMS = st.sampled_from([None, 0, 1, 4, "\t"])


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(st.text(max_size=4), VALUES, max_size=3), st.none() | SERVERS, FORMS, st.booleans())
def test_whatever_is_in_a_file_stays(
    others: dict[str, Any], servers: dict[str, Any] | None, form: int | str | None, ascii_: bool
) -> None:
    """An entry is put in, put in again, and taken out: the rest is the same, and the text around it too."""
    others.pop("servers", None)
    before = {**others, **({} if servers is None else {"servers": servers}), "z": 1}
    text = json.dumps(before, indent=form, ensure_ascii=ascii_)
    path, entry = ("servers", "go-ent"), {"command": "x", "args": ["y"]}
    made = put(text, path, entry)
    assert json.loads(made) == {**before, "servers": {**(servers or {}), "go-ent": entry}}
    assert put(made, path, entry) == made
    without = {key: value for key, value in (servers or {}).items() if key != "go-ent"}
    assert json.loads(drop(made, path)) == {**before, "servers": without}
    if servers and "go-ent" not in servers:
        assert drop(made, path) == text


@settings(deadline=None, max_examples=150)
@given(st.text(alphabet='{}[]",:/*\\ \n1ae', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found, lenient = read(text)
    except NotEditable:
        return
    if not lenient and text.strip():
        assert found.keys() == json.loads(text).keys()
