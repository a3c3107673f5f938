"""The settings of a folder that nobody has trusted: what they may not have done before `go-ent trust`, and what they
get after.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from go_ent.composer import Composer
from go_ent.composer.config import read_config
from go_ent.composer.project.files import user_data
from go_ent.composer.project.image import project_image, project_packages, wanted_key
from go_ent.composer.project.trust import set_trust
from go_ent.composer.sources.mcp_transports import child_environment as server_environment
from go_ent.engine.core.config import RunnerConfig
from go_ent.engine.processes.child import ChildLimits, Command, NotStarted, run_child
from go_ent.engine.processes.environment import child_environment
from go_ent.engine.runners.claude.runner import ClaudeRunner
from go_ent.engine.setup.install import command as go_ent_command
from go_ent.engine.setup.trust_list import wants
from go_ent.sandbox import Limits
from go_ent.sandbox.children.programs import find_program, program_to_start, without_relative
from go_ent.sandbox.children.python import run_python
from go_ent.sandbox.images import packages
from go_ent.sandbox.images.cache import cache_path
from go_ent.sandbox.images.ensure import source_key
from tests.security.corpus import attack
from tests.support.shell import Done, go_ent

PACKAGES = '[image]\npackages = ["attrs==25.3.0"]\n'
TRUST = "look at its .go-ent/config.toml, then run go-ent trust there"
WIDE = "[limits]\nmemory_mb = 1024\ncpu_s = 5\ntimeout_s = 600\nfuel = 1000000\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "folder"
    (folder / ".go-ent").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "user"))
    return folder


def write(folder: Path, text: str) -> None:
    (folder / ".go-ent" / "config.toml").write_text(text)


def said(done: Done) -> str:
    return (done.stdout + done.stderr).decode()


class TestPackages:
    @attack("folder", "packages of its settings, downloaded by looking at it")
    def test_none_is_downloaded(self, folder: Path, tmp_path: Path) -> None:
        """The folder's own pip would be the one: that it does not run is in test_folder."""
        write(folder, PACKAGES)
        assert project_packages(folder, trusted=False) == ()
        assert wanted_key(folder, trusted=False) == source_key()
        assert project_image(folder).packages == ()
        for arguments in (["exec", "-c", "1"], ["tool", "list"], ["init"], ["config", "check"]):
            done = go_ent(*arguments)
            assert done.returncode == 0, done.stderr
        done = go_ent("exec", "-c", "1")
        assert (
            f"image.packages: attrs==25.3.0 are not in the sandbox: nobody has trusted this folder; {TRUST}".encode()
            in done.stderr
        )

    def test_code_that_imports_one_hears_why_it_is_not_there(self, folder: Path) -> None:
        write(folder, PACKAGES)
        run = json.loads(go_ent("exec", "--json", "-c", "import attr").stdout)
        assert (run["status"], run["error"]["message"]) == ("refused", "module 'attr' is not in the sandbox's image")
        assert run["error"]["hint"].endswith(
            f"attrs==25.3.0 are not in the sandbox: nobody has trusted this folder; {TRUST}"
        )

    def test_building_them_says_what_to_do(self, folder: Path) -> None:
        write(folder, PACKAGES)
        done = go_ent("image", "build")
        assert (done.returncode, done.stdout) == (2, b"")
        assert f"nobody has trusted {folder}, so attrs==25.3.0 can't be downloaded: run go-ent trust there" in said(
            done
        )

    def test_trust_lists_them_and_then_they_are_wanted(self, folder: Path) -> None:
        write(folder, PACKAGES)
        assert "packages for the sandbox, downloaded by pip: attrs==25.3.0" in wants(folder)
        assert b"packages for the sandbox, downloaded by pip: attrs==25.3.0" in go_ent("trust").stdout
        set_trust(folder, True)
        assert project_packages(folder) == ("attrs==25.3.0",)
        assert wanted_key(folder, trusted=True) != source_key()
        assert read_config(folder).withheld == {}

    def test_those_of_the_users_own_environment_need_no_trust(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GO_ENT__IMAGE__PACKAGES", '["attrs==25.3.0"]')
        assert project_packages(folder, trusted=False) == ("attrs==25.3.0",)
        assert read_config(folder).withheld == {}

    @attack("folder", "packages of a folder above a trusted one")
    def test_trust_is_of_the_folder_whose_settings_they_are(self, folder: Path) -> None:
        write(folder, PACKAGES)
        inner = folder / "inner"
        (inner / ".go-ent").mkdir(parents=True)
        assert project_packages(inner) == ()

    async def test_what_is_left_out_is_told_by_the_library(
        self, folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        write(folder, PACKAGES)

        async with Composer.open(folder) as composer:
            result = list(composer.box.image.packages)
        assert result == []
        assert "go-ent trust" in caplog.text


class TestLimits:
    @attack("folder", "limits of its settings that are wider than the defaults")
    def test_they_only_narrow(self, folder: Path) -> None:
        write(folder, WIDE)
        config = read_config(folder)
        assert config.limits == Limits(cpu_s=5, fuel=1_000_000)
        assert set(config.withheld) == {("limits", "memory_mb"), ("limits", "timeout_s")}
        done = go_ent("exec", "-c", "len(bytearray(300 << 20))")
        assert done.returncode != 0
        assert (
            b"limits.memory_mb: 1024 is wider than the default 128, which holds: nobody has trusted this folder"
            in done.stderr
        )

    def test_check_doctor_show_and_trust_say_so(self, folder: Path) -> None:
        write(folder, WIDE)
        assert (
            b"note: .go-ent/config.toml:2: limits.memory_mb: 1024 is wider than the default 128"
            in go_ent("config", "check").stderr
        )
        assert "limits.memory_mb: 1024 is wider than the default 128, which holds" in " ".join(
            said(go_ent("doctor")).split()
        )
        shown = {one["name"]: one for one in json.loads(go_ent("config", "show", "--json").stdout)}
        assert (shown["limits.memory_mb"]["value"], shown["limits.memory_mb"]["source"]) == (
            128,
            "default, until go-ent trust",
        )
        assert (shown["limits.cpu_s"]["value"], shown["limits.cpu_s"]["source"]) == (5.0, ".go-ent/config.toml:3")
        assert "limit memory_mb: 1024 instead of 128" in wants(folder)

    def test_once_trusted_they_widen(self, folder: Path) -> None:
        write(folder, WIDE)
        set_trust(folder, True)
        assert read_config(folder).limits == Limits(memory_mb=1024, cpu_s=5, timeout_s=600, fuel=1_000_000)

    def test_those_of_the_users_own_environment_widen(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(folder, WIDE)
        monkeypatch.setenv("GO_ENT__LIMITS__MEMORY_MB", "512")
        assert read_config(folder).limits.memory_mb == 512


class TestServersOfFiles:
    @attack("folder", "files that its settings name, opened by looking at it")
    def test_they_stay_closed(self, folder: Path) -> None:
        write(folder, 'mcp_json = "servers.json"\n')
        (folder / "servers.json").write_text('{"mcpServers": {"planted": {"command": "x"}}}')
        assert read_config(folder).servers == {}
        assert list(read_config(folder, look=True).servers) == ["planted"]
        assert "server planted: x" in wants(folder)
        assert wants(folder, look=False) == ["servers of servers.json"]
        set_trust(folder, True)
        assert list(read_config(folder).servers) == ["planted"]


def program(path: Path, text: str = "echo here") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


class TestPath:
    @pytest.mark.parametrize("path", ["bin", "./bin:", ":", "", "node_modules/.bin:.:bin"])
    @attack("folder", "a program on a relative element of PATH")
    def test_relative_elements_are_not_searched(self, folder: Path, path: str) -> None:
        for place in ("bin", ".", "node_modules/.bin"):
            program(folder / place / "planted")
        assert find_program("planted", path, folder) is None
        assert without_relative(path) == os.defpath, "an empty PATH is the current folder"
        assert without_relative(f"{path}:/opt/x") == "/opt/x"
        with pytest.raises(FileNotFoundError):
            program_to_start("planted", path, folder)

        async def main() -> None:
            command = Command(("planted",), folder, {"PATH": path})
            await run_child(command, lambda line: None, limits=ChildLimits(timeout_s=10), tag="t")

        with pytest.raises(NotStarted, match="there is no program 'planted' on the PATH"):
            asyncio.run(main())

    @attack("folder", "a relative element of PATH, handed on to a child")
    async def test_children_get_none(self, folder: Path, tmp_path: Path) -> None:
        """A script whose first line says env finds its interpreter on the PATH that it was given."""
        program(folder / "bin" / "sh", "echo planted")
        real = program(tmp_path / "real" / "script")
        real.write_text("#!/usr/bin/env sh\necho $PATH\n")
        lines: list[bytes] = []

        command = Command(("script",), folder, {"PATH": f"bin::{real.parent}:/usr/bin:/bin"})
        await run_child(command, lines.append, limits=ChildLimits(timeout_s=30), tag="t")
        assert lines == [f"{real.parent}:/usr/bin:/bin".encode()]
        assert child_environment({"PATH": "bin:/a"})["PATH"] == "/a"
        assert child_environment({}, set={"PATH": "./bin:/a"})["PATH"] == "/a"
        assert server_environment({"PATH": ".:/a"}, {})["PATH"] == "/a"

    @attack("folder", "an agent program that is looked up in it")
    async def test_agents_are_not(self, folder: Path) -> None:
        program(folder / "bin" / "claude", "touch ran; echo 2.1.200")
        runner = ClaudeRunner(RunnerConfig(), project=folder, host_env={"PATH": "bin:", "HOME": str(folder)})
        found = await runner.available()
        assert (found.ok, found.reason) == (False, "there is no program claude")
        assert not (folder / "ran").exists()

    @attack("folder", "an agent program that obeys the folder in which its version is asked for")
    async def test_a_version_is_asked_for_elsewhere(self, folder: Path, tmp_path: Path) -> None:
        real = program(tmp_path / "real" / "claude", f"pwd > {tmp_path}/where; echo '2.1.200 (Claude Code)'")
        runner = ClaudeRunner(RunnerConfig(), project=folder, host_env={"PATH": str(real.parent), "HOME": str(folder)})
        assert (await runner.available()).ok
        assert (tmp_path / "where").read_text() == "/\n"

    @attack("folder", "a go-ent that a client would start from it")
    def test_a_client_is_given_no_command_of_it(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        program(folder / "bin" / "go-ent")
        monkeypatch.setenv("PATH", "bin:/nowhere")
        assert go_ent_command().is_absolute()
        assert not go_ent_command().is_relative_to(folder)


class TestUsersFolders:
    @pytest.mark.parametrize("name", ["GO_ENT_DATA", "GO_ENT_CACHE"])
    @attack("folder", "a relative folder of the user's, which is the folder's own: its trust, its compiled code")
    def test_a_relative_one_is_refused(self, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        write(folder, PACKAGES)
        (folder / "mine").mkdir(mode=0o700)
        (folder / "mine" / "trust.json").write_text(json.dumps({"version": 1, "projects": {str(folder): 1.0}}))
        monkeypatch.setenv(name, "mine")
        done = go_ent("exec", "-c", "1")
        assert (done.returncode, done.stdout) == (12, b"")
        assert f"{name} is 'mine', which is another folder in each place" in said(done)

    @attack("folder", "a relative base folder of XDG's")
    def test_a_relative_base_does_not_count(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        for name in ("GO_ENT_DATA", "GO_ENT_CACHE"):
            monkeypatch.delenv(name, raising=False)
        for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
            monkeypatch.setenv(name, "mine")
        assert (user_data(), cache_path()) == (tmp_path / ".local" / "share" / "go-ent", tmp_path / ".cache" / "go-ent")


class TestPython:
    @attack("folder", "modules, variables and the current folder, for a Python that is started")
    def test_a_child_sees_nothing_of_the_folder(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("json", "sitecustomize", "pip"):
            (folder / f"{name}.py").write_text("raise SystemExit(f'{__file__} ran')\n")
        monkeypatch.setenv("PYTHONPATH", str(folder))
        monkeypatch.setenv("PYTHONSTARTUP", str(folder / "pip.py"))
        code = "import json, os, sys; print(json.dumps([sys.path, os.getcwd(), dict(os.environ), sys.flags.isolated]))"
        done = run_python(["-c", code], env={}, timeout_s=60)
        assert done.returncode == 0, done.stderr
        path, cwd, environ, isolated = json.loads(done.stdout)
        assert not any(Path(entry).is_relative_to(folder) or not os.path.isabs(entry) for entry in path)
        assert (cwd, isolated) == ("/", 1)
        assert set(environ) <= {"LC_CTYPE"}
        assert "pip" in run_python(["-m", "pip", "--version"], env={}, timeout_s=60).stdout

    @attack("folder", "a pip.py beside a project whose packages are baked")
    def test_pip_is_the_installed_one_also_for_a_trusted_folder(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("pip", "runpy", "json", "setuptools", "sitecustomize"):
            (folder / f"{name}.py").write_text("raise SystemExit(f'{__file__} ran')\n")
        (folder / "pip.conf").write_text("[global]\nindex-url = http://127.0.0.1:9\n")
        monkeypatch.setenv("PYTHONPATH", str(folder))
        monkeypatch.setenv("PIP_CONFIG_FILE", "pip.conf")
        done = packages._run("-m", "pip", "config", "list")
        assert (done.returncode, "127.0.0.1:9" in done.stdout) == (0, False), done.stderr
        code = "import os, sys; print(os.getcwd(), os.listdir('.'), sys.flags.isolated)"
        where, *rest = packages._run("-c", code).stdout.split()
        assert (Path(where).parent, rest) == (cache_path() / "scratch", ["[]", "1"])


class TestFastmcp:
    SHOW = (
        "import os, sys; before = dict(os.environ); import go_ent.engine.server, fastmcp; "
        "assert dict(os.environ) == before; "
        "print(fastmcp.settings.log_level, fastmcp.settings.model_config['env_file'])"
    )

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("FASTMCP_LOG_LEVEL=DEBUG\n", id="says more than it should", marks=pytest.mark.more),
            pytest.param("FASTMCP_LOG_LEVEL=nonsense\n", id="keeps it from starting"),
            pytest.param(
                "A=" + "x" * 64 + "\n" + "".join(f"A{n + 1}=" + f"${{A{n or ''}}}" * 10 + "\n" for n in range(30)),
                id="unfolds",
                marks=pytest.mark.more,
            ),
        ],
    )
    @attack("folder", "a .env that a library takes settings from")
    def test_it_takes_nothing_from_a_dotenv(self, folder: Path, text: str) -> None:
        (folder / ".env").write_text(text)
        assert self.shown(folder, {}) == "INFO /dev/null\n"

    @attack("folder", "variables that a library takes settings from")
    def test_it_takes_nothing_from_variables(self, folder: Path) -> None:
        (folder / "other.env").write_text("FASTMCP_LOG_LEVEL=DEBUG\n")
        theirs = {"FASTMCP_LOG_LEVEL": "DEBUG", "fastmcp_log_enabled": "nonsense", "FASTMCP_ENV_FILE": "other.env"}
        assert self.shown(folder, theirs) == "INFO /dev/null\n"

    def shown(self, folder: Path, variables: dict[str, str]) -> str:
        command = [sys.executable, "-I", "-c", self.SHOW]
        environment = {"PATH": os.defpath, "HOME": str(folder.parent), **variables}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
