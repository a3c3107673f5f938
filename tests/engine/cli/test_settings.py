"""`go-ent config` and `go-ent completion`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from go_ent.engine.settings.schema import schema
from go_ent.engine.settings.show import masked_arguments
from tests.engine.executions.test_executions import fresh
from tests.support import ROOT
from tests.support.executions import FileStore
from tests.support.rows import each
from tests.support.shell import Done, go_ent

BROKEN = """
mcp_json = ["nope.json"]
[servers.gh]
url = "https://me@example.com/mcp?place=s3cret"
token = "${env:NOT_THERE}"
headers = { Place = "s3cret", X = "${env:GIVEN:-s3cret}" }
[servers.z]
command = "no-such-program"
args = ["--api-key", "s3cret", "--token=s3cret", "."]
env = { A = "s3cret" }
[openapi.shop]
document = "api.json"
[commands.c]
argv = ["no-such-command"]
env = ["ALSO_NOT_THERE"]
set = { PLACE = "s3cret" }
[roles.r]
skills = ["style"]
runtime = "claude"
[engine]
chain = ["nobody"]
concurrency = 8
[budget]
timezone = "Mars"
"""


REFER = "write it as a reference, ${env:NAME}"
TOOL = '# /// tool\n# name = "double"\n# ///\ndef double(n: int) -> int:\n    """Twice."""\n    return 2 * n\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".go-ent").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "user"))
    return tmp_path


def write(project: Path, text: str, name: str = "config.toml") -> None:
    path = project / ".go-ent" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def good(done: Done) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def in_force(*arguments: str) -> dict[str, tuple[Any, str]]:
    found = json.loads(good(go_ent("config", "show", "--json", *arguments)))
    return {one["name"]: (one["value"], one["source"]) for one in found}


class TestShow:
    def test_each_setting_says_where_it_comes_from(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(project, "[budget]\nhard = true\n[budget.day]\nusd = 2\n[engine]\nconcurrency = 2\n")
        monkeypatch.setenv("GO_ENT__BUDGET__DAY__TOKENS", "1000")
        monkeypatch.setenv("GO_ENT__ENGINE__CONCURRENCY", "8")
        found = in_force()
        assert found["budget.hard"] == (True, ".go-ent/config.toml:2")
        assert found["budget.day.usd"] == (2.0, ".go-ent/config.toml:4")
        assert found["budget.day.tokens"] == (1000, "GO_ENT__BUDGET__DAY__TOKENS")
        assert found["engine.concurrency"] == (8, "GO_ENT__ENGINE__CONCURRENCY")
        assert found["engine.timeout_s"] == (1800.0, "default")
        assert found["limits.memory_mb"] == (128, "default")

    def test_a_section_for_people(self, project: Path) -> None:
        write(project, "[budget]\nday = { usd = 5 }\n")
        assert good(go_ent("config", "show", "budget.day")).splitlines() == [
            "setting            value  from",
            "budget.day.usd     5.0    .go-ent/config.toml:2",
            "budget.day.tokens  -      default",
        ]
        assert set(in_force("executions")) == {
            f"executions.{name}" for name in ("keep", "days", "max_mb", "auto", "sync")
        }
        assert in_force("servers") == {"servers": ({}, "default")}
        done = go_ent("config", "show", "bugdet")
        assert (done.returncode, done.stderr) == (2, b"go-ent: there is no setting bugdet; did you mean budget?\n")

    def test_no_secret_is_shown(self, project: Path) -> None:
        write(project, BROKEN.replace('mcp_json = ["nope.json"]', 'mcp_json = ".mcp.json"'))
        (project / ".mcp.json").write_text(
            json.dumps({"mcpServers": {"other": {"command": "x", "env": {"K": "s3cret"}}}})
        )
        found = in_force()
        assert found["servers.gh.token"] == ("${env:NOT_THERE}", ".go-ent/config.toml:5")
        assert found["servers.gh.url"] == ("https://example.com/mcp (hidden)", ".go-ent/config.toml:4")
        assert found["servers.gh.headers.Place"][0] == "(hidden)"
        assert found["servers.gh.headers.X"][0] == "${env:GIVEN}"
        assert found["servers.z.args"][0] == ["--api-key", "(hidden)", "--token=(hidden)", "."]
        assert found["commands.c.set.PLACE"] == ("(hidden)", ".go-ent/config.toml:16")
        assert found["commands.c.env"][0] == ["ALSO_NOT_THERE"]
        assert found["servers.other.command"] == ("x", ".mcp.json")
        assert found["servers.other.env.K"] == ("(hidden)", ".mcp.json")
        said = go_ent("config", "show").stdout + go_ent("config", "show", "--json").stdout
        assert b"s3cret" not in said
        assert b"me@" not in said

    @each(
        ("arguments", "shown"),
        [
            (["-H", "Authorization: Bearer s3cret"], ["-H", "(hidden)"]),
            (["-HX-Mine: s3cret", "-ume:s3cret", "-bid=s3cret"], ["-H(hidden)", "-u(hidden)", "-b(hidden)"]),
            (
                ["-u", "me:s3cret", "--user", "me:s3cret", "--user=me:s3cret"],
                ["-u", "(hidden)", "--user", "(hidden)", "--user=(hidden)"],
            ),
            (["Authorization: Bearer s3cret", "x-api-key: s3cret"], ["(hidden)", "(hidden)"]),
            (
                ["postgres://me:s3cret@db:1/x", "--at=http://h/p?k=s3cret"],
                ["postgres://db:1/x (hidden)", "--at=http://h/p (hidden)"],
            ),
            (
                ["-e", "A_B=s3cret", "-eA=s3cret", "--env=A=s3cret"],
                ["-e", "A_B=(hidden)", "-eA=(hidden)", "--env=A=(hidden)"],
            ),
            (["TOKEN=${env:T}", "${env:T:-s3cret}"], ["TOKEN=${env:T}", "${env:T}"]),
            (["--token", "${env:T:-s3cret}"], ["--token", "${env:T}"]),
            (["-u", "main.py", "-h", "db:1", "--depth=3", "a b"], ["-u", "main.py", "-h", "db:1", "--depth=3", "a b"]),
        ],
    )
    def test_of_arguments_only_what_is_no_secret(self, arguments: list[str], shown: list[str]) -> None:
        assert masked_arguments(arguments) == shown

    @pytest.mark.parametrize("part", ["a", "-token", "https", "basic ", "A=", "-"])
    def test_long_arguments_are_looked_at_soon(self, part: str) -> None:
        masked_arguments(["--" + part * 50_000 + "!", part * 50_000])  # what takes ever longer would not end

    def test_a_projects_name_that_is_not_text_is_escaped(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        project = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff"))
        (project / ".go-ent").mkdir(parents=True)
        monkeypatch.chdir(project)
        said = good(go_ent("config", "check", "--json"))
        assert said.isascii()
        assert json.loads(said)["project"] == str(project)

    def test_what_is_wrong_is_told_instead(self, project: Path) -> None:
        write(project, "[engine]\nspeed = 3\n")
        done = go_ent("config", "show")
        assert (done.returncode, done.stdout) == (12, b"")
        assert done.stderr.startswith(
            b"go-ent: .go-ent/config.toml:2: engine.speed: there is no such setting; there are"
        )


class TestCheck:
    def test_all_is_well(self, project: Path) -> None:
        write(project, "[engine]\nconcurrency = 2\n")
        assert good(go_ent("config", "check")) == "no problems: 1 section, 0 variables, 0 skills, 0 composed tools\n"
        assert json.loads(good(go_ent("config", "check", "--json")))["ok"] is True

    def test_a_grant_that_fits_nothing_is_told(self, project: Path) -> None:
        write(
            project, '[grants]\nallow = ["githb.*", "*"]\napprove = ["count_wrods"]\n[servers.github]\ncommand = "sh"\n'
        )
        done = go_ent("config", "check")
        assert done.returncode == 0
        assert b"grants: githb.*: there is no source githb; did you mean github?" in done.stderr
        assert b"grants: count_wrods: there is no composed tool count_wrods" in done.stderr

    def test_everything_that_is_wrong_is_told_at_once(self, project: Path) -> None:
        write(project, BROKEN)
        write(project, "{% if %}", "prompts/user.j2")
        write(project, "x", "prompts/mine.j2")
        write(project, "---\n: [\n---\n", "skills/odd/SKILL.md")
        write(project, "x = (", "composed-tools/broken.py")
        done = go_ent("config", "check", "--json")
        assert done.returncode == 12
        found = json.loads(done.stdout)
        file = ".go-ent/config.toml"
        starts = [
            f"{project}/nope.json: it can't be read: No such file",
            f"{file}:5: servers.gh.token: the environment variable NOT_THERE is not set",
            f"{file}:8: servers.z.command: 'no-such-program' is not found on PATH",
            f"{file}:12: openapi.shop.document: {project}/api.json: it can't be read",
            f"{file}:14: commands.c.argv: 'no-such-command' is not found on PATH",
            f"{file}:21: engine.chain.0: there is no role 'nobody'",
            f"{file}:18: roles.r.skills.0: there is no skill 'style'; the skills are odd",
            f"{file}:19: roles.r.runtime: there is no runtime 'claude'; there are claude-code, open-code, cli",
            f"{file}:24: budget.timezone: there is no time zone 'Mars'",
            ".go-ent/skills/odd/SKILL.md: the skill odd can't be used: ",
            ".go-ent/prompts/user.j2, line 1: ",
            ".go-ent/composed-tools/broken.py: it has no metadata",
        ]
        assert [problem[: len(start)] for problem, start in zip(found["problems"], starts, strict=True)] == starts
        notes = "\n".join(found["notes"])
        assert f"{file}:15: commands.c.env: the environment variable ALSO_NOT_THERE is not set" in notes
        assert "nobody has trusted this folder" in notes
        assert ".go-ent/prompts/mine.j2: not used" in notes
        assert "s3cret" not in done.stdout.decode()

    def test_a_file_that_can_not_be_read_does_not_hide_the_rest(self, project: Path) -> None:
        write(project, "[engine\n")
        write(project, "---\n: [\n---\n", "skills/odd/SKILL.md")
        done = go_ent("config", "check")
        assert (done.returncode, done.stderr) == (12, b"2 problems\n")
        first, second = done.stdout.decode().splitlines()
        assert first.startswith(".go-ent/config.toml:1: it is not valid TOML")
        assert second.startswith(".go-ent/skills/odd/SKILL.md: ")

    def test_a_mistake_in_the_file_is_told_once(self, project: Path) -> None:
        write(project, "[engine\n")
        write(project, TOOL, "composed-tools/double.py")
        done = go_ent("config", "check")
        assert (done.returncode, done.stderr, done.stdout.count(b"\n")) == (12, b"1 problem\n", 1)

    @pytest.mark.parametrize(
        ("setting", "at", "do"),
        [
            (
                '[servers.x]\nurl = "https://x"\nheaders = { Authorization = "Bearer s3cret" }',
                "3: servers.x.headers.Authorization",
                REFER,
            ),
            (
                '[servers.x]\nurl = "https://x"\nheaders = { X-Api-Key = "s3cret" }',
                "3: servers.x.headers.X-Api-Key",
                REFER,
            ),
            ('[servers.x]\nurl = "https://me:s3cret@x"', "2: servers.x.url", REFER),
            ('[servers.x]\nurl = "https://x?api_key=s3cret"', "2: servers.x.url", REFER),
            (
                '[servers.x]\ncommand = "sh"\n[servers.x.env]\nGITHUB_TOKEN = "s3cret"',
                "4: servers.x.env.GITHUB_TOKEN",
                REFER,
            ),
            ('[servers.x]\ncommand = "sh"\nenv = { WHO = "sk-s3cret-0123456789abc" }', "3: servers.x.env.WHO", REFER),
            ('[openapi.x]\ndocument = "x"\nheaders = { Cookie = "s3cret" }', "3: openapi.x.headers.Cookie", REFER),
            (
                '[commands.x]\nargv = ["sh"]\nset = { PGPASSWORD = "s3cret" }',
                "3: commands.x.set.PGPASSWORD",
                'name it in env = ["PGPASSWORD"]',
            ),
            (
                '[runners.claude-code.set]\nANTHROPIC_API_KEY = "s3cret"',
                "2: runners.claude-code.set.ANTHROPIC_API_KEY",
                "name it in env",
            ),
        ],
    )
    def test_a_secret_in_the_file_is_refused_and_not_repeated(
        self, project: Path, setting: str, at: str, do: str
    ) -> None:
        write(project, f"{setting}\n")
        done = go_ent("config", "check")
        assert (done.returncode, b"s3cret" in done.stdout + done.stderr) == (12, False)
        assert f".go-ent/config.toml:{at}: {do}" in done.stdout.decode()
        ran = go_ent("exec", "-c", "1")
        assert (ran.returncode, ran.stdout, at.encode() in ran.stderr, b"s3cret" in ran.stderr) == (
            12,
            b"",
            True,
            False,
        )

    @pytest.mark.parametrize(
        "setting",
        [
            '[servers.x]\nurl = "https://x?page=2"\nheaders = { Authorization = "Bearer ${env:HOME}", Accept = '
            '"text/plain" }',
            '[servers.x]\ncommand = "sh"\nenv = { MAX_TOKENS = "4096", TOKENIZERS_PARALLELISM = "false", '
            'KEYBOARD = "us", A_TOKEN = "" }',
            '[commands.x]\nargv = ["sh"]\nset = { REGION = "eu" }',
        ],
    )
    def test_what_is_no_secret_may_be_written(self, project: Path, setting: str) -> None:
        write(project, f"{setting}\n")
        assert go_ent("config", "check").returncode == 0

    def test_a_secret_of_the_environment_is_where_it_belongs(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(project, '[servers.x]\nurl = "https://x"\n')
        monkeypatch.setenv("GO_ENT__SERVERS__X__HEADERS__Authorization", "Bearer s3cret")
        assert go_ent("config", "check").returncode == 0
        assert in_force()["servers.x.headers.Authorization"] == (
            "(hidden)",
            "GO_ENT__SERVERS__X__HEADERS__Authorization",
        )

    def test_another_programs_file_with_a_secret_is_noted(self, project: Path) -> None:
        write(project, 'mcp_json = ".mcp.json"\n')
        (project / ".mcp.json").write_text(
            json.dumps({"mcpServers": {"o": {"command": "sh", "env": {"API_KEY": "s3cret"}}}})
        )
        done = go_ent("config", "check")
        assert (
            done.returncode,
            b"note: servers.o.env.API_KEY: a file of mcp_json holds the secret itself" in done.stderr,
        ) == (0, True)
        assert b"s3cret" not in done.stdout + done.stderr

    def test_a_variable_that_is_no_setting(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GO_ENT__ENGINE__CONCURENCY", "8")
        done = go_ent("config", "check")
        assert done.returncode == 12
        assert (
            b"GO_ENT__ENGINE__CONCURENCY: engine.concurency: there is no such setting; did you mean engine.concurrency?"
            in done.stdout
        )


def test_schema_is_one_json_document(project: Path) -> None:
    assert json.loads(good(go_ent("config", "schema"))) == schema()


class TestFlags:
    def test_a_flag_comes_before_the_environment_and_that_before_the_file(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(project, "[limits]\nmax_tool_calls = 5\ntimeout_s = 50\n")
        monkeypatch.setenv("GO_ENT__LIMITS__TIMEOUT_S", "0.3")
        done = go_ent("exec", "-c", "while True: pass")
        assert done.returncode == 4, done.stderr
        monkeypatch.setenv("GO_ENT__LIMITS__CPU_S", "0.2")
        done = go_ent("exec", "-c", "while True: pass", "--timeout", "20")
        assert done.returncode == 5, done.stderr


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_the_script_of_a_shell(self, project: Path, shell: str) -> None:
        script = good(go_ent("completion", "show", shell))
        assert all(word in script for word in ("config", "completion", "__complete"))
        if shell == "bash":
            subprocess.run(["bash", "-n"], input=script, text=True, check=True)

    def test_installing_says_what_it_wrote_and_writes_it_once(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        home = project / "home"
        home.mkdir()
        monkeypatch.setenv("HOME", str(home))
        (home / ".bashrc").write_text("export A=1\n")
        script = home / ".local/share/bash-completion/completions/go-ent"
        first = json.loads(good(go_ent("completion", "install", "bash", "--json")))
        assert first == {"shell": "bash", "written": [str(script), str(home / ".bashrc")]}
        before = (home / ".bashrc").read_text()
        assert before.startswith("export A=1\n")
        assert f"written: {script}" in good(go_ent("completion", "install", "bash"))
        assert (home / ".bashrc").read_text() == before
        assert good(go_ent("completion", "install", "fish", "--no-startup")).startswith(
            f"written: {home}/.config/fish/"
        )

    def test_names_are_completed_from_what_is_there(self, project: Path) -> None:
        write(project, "", "composed-tools/count_words.py")
        write(project, "", "composed-tools/Not-a-tool.py")
        store = FileStore(project)
        execution = fresh().id
        store.create(fresh(id=execution)).release()
        go_ent_file = project / "go-ent"
        go_ent_file.write_text(
            f'#!/bin/sh\nexec {sys.executable} -c "from go_ent.engine.cli import main; main()" "$@"\n'
        )
        go_ent_file.chmod(0o700)
        script = project / "complete.sh"
        words = "source /dev/stdin\nCOMP_WORDS=(go-ent {}); COMP_CWORD={}; _go_ent; echo ${{COMPREPLY[@]}}\n"
        lines = [("config sh", 2, "show"), ("tool show co", 3, "count_words")]
        environment = {**os.environ, "PATH": f"{project}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        source = good(go_ent("completion", "show", "bash"))
        for words_typed, at, completed in lines:
            script.write_text(words.format(words_typed, at))
            done = subprocess.run(
                ["bash", str(script)],
                input=source,
                capture_output=True,
                text=True,
                env=environment,
                cwd=project,
                check=True,
            )
            assert done.stdout.strip() == completed, done.stderr
        offered = good(go_ent("__complete", "status", "")).splitlines()
        assert {"last", execution[-8:]} <= set(offered)
