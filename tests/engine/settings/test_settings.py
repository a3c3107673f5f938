"""Settings: the file, then the environment; every message says where."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from go_ent.composer.config import SECTIONS as TOOL_SECTIONS
from go_ent.composer.config import read_config, read_settings, section_kinds
from go_ent.composer.errors import ConfigError
from go_ent.composer.project.image import project_packages
from go_ent.composer.project.layers import (
    MAX_BYTES,
    UnreadableSettings,
    dotted,
    literal,
    read_layers,
    without_secrets,
)
from go_ent.composer.project.problems import bare, below
from go_ent.composer.project.toml_lines import lines_of
from go_ent.engine.core.config import SECTIONS, EngineConfig, read_engine_config
from go_ent.engine.settings.schema import is_model, named, schema, whole
from go_ent.engine.settings.template import first_config
from tests.support import ROOT
from tests.support.rows import each

BARE = re.compile(r"[A-Za-z0-9_-]+")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".go-ent").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(project: Path, text: str) -> None:
    (project / ".go-ent" / "config.toml").write_text(text)


def told(project: Path) -> list[str]:
    """All that is wrong, by whoever reads the settings."""
    found: list[str] = []
    for read in (read_config, read_engine_config):
        try:
            read(project)
        except ConfigError as error:
            found += [problem for problem in error.problems if problem not in found]
    return found


def paths(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Everything that there is in a document."""
    if at:
        yield at
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(inner, (*at, key))


class Writer:
    """Writes data as TOML, in whichever of its many ways are drawn."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw, self.lines = draw, list[str]()

    def _one_of(self, *choices: str) -> str:
        return self._draw(st.sampled_from(choices))

    def key(self, key: str) -> str:
        ways = [json.dumps(key, ensure_ascii=False).replace("\x7f", "\\u007f")]
        if BARE.fullmatch(key):
            ways.append(key)
        if "'" not in key and key.isprintable():
            ways.append(f"'{key}'")
        return self._one_of(*ways)

    def value(self, value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.key(key)} = {self.inline(inner)}" for key, inner in value.items()) + "}"
        if isinstance(value, list):
            between = self._one_of(", ", ",\n  ", " , # a ] comment\n")
            return (
                "["
                + self._one_of("", "\n", " # [\n")
                + between.join(map(self.value, value))
                + self._one_of("", "\n")
                + "]"
            )
        if isinstance(value, str) and self._one_of("plain", "long") == "long":
            return self._one_of(f'"""\n{value}\n[no.table]\n"""', f"'''{value}\nno = 'key' ''''")
        return json.dumps(value)

    def inline(self, value: Any) -> str:
        """In braces there is no new line, save in a text."""
        if isinstance(value, list):
            return f"[{', '.join(map(self.inline, value))}]"
        return self.value(value) if isinstance(value, dict) else json.dumps(value)

    def table(self, table: Mapping[str, Any], header: str = "", prefix: str = "") -> None:
        later = []
        for key, value in table.items():
            if self._draw(st.booleans()):
                self.lines.append(self._one_of("", "# [comment] = 1", "   "))
            name = self.key(key)
            way = self._one_of("header", "dotted", "inline") if isinstance(value, dict) and value else "inline"
            is_tables = isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
            if way == "dotted":
                self.table(value, prefix=f"{prefix}{name}{self._one_of('.', ' . ')}")
            elif not prefix and (way == "header" or (is_tables and self._draw(st.booleans()))):
                later.append((name, value))
            else:
                self.lines += f"{prefix}{name} = {self.value(value)}{self._one_of('', '  # x')}".split("\n")
        for name, value in later:
            full = f"{header}.{name}" if header else name
            for item in [value] if isinstance(value, dict) else value:
                self.lines.append(f"[{full}]" if isinstance(value, dict) else f"[[ {full} ]]")
                self.table(item, header=full)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, Any]:
    """A TOML document in which no key is there twice, so that a line that has it is its line."""
    count = iter(range(10_000))
    start = st.text(st.characters(codec="utf-8", exclude_characters="'\"\\"), max_size=3)
    keys = st.one_of(st.just("a"), start).map(lambda text: f"{text}k{next(count)}k")
    scalars = st.one_of(st.integers(-9, 9), st.booleans(), st.sampled_from(["", "x", "[a]", "# no", "a = 1"]))
    values = st.recursive(
        scalars,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
        max_leaves=12,
    )
    data = draw(st.dictionaries(keys, values, max_size=4))
    writer = Writer(draw)
    writer.table(data)
    return "\n".join(writer.lines) + "\n", data


class TestLines:
    @settings(max_examples=50, deadline=None)
    @given(documents())
    def test_everything_that_tomllib_finds_has_its_line(self, document: tuple[str, Any]) -> None:
        text, _ = document
        found = lines_of(text)
        lines = text.split("\n")
        everything = list(paths(tomllib.loads(text)))
        assert set(everything) == set(found)
        for path in everything:
            key = next(part for part in reversed(path) if isinstance(part, str))
            if isinstance(path[-1], str):
                assert re.search(r"k\d+k$", key)[0] in lines[found[path] - 1]  # type: ignore[index]

    @settings(max_examples=200, deadline=None)
    @example('"\\a" = 1')
    @example("a=[}")
    @example("a={b=]")
    @example("a=")
    @given(st.text(st.sampled_from("a.=[]{}\"'\n\\#, 1"), max_size=60))
    def test_what_is_no_toml_does_no_harm(self, text: str) -> None:
        lines_of(text)

    def test_a_table_in_pieces_a_list_over_lines_and_an_array_of_tables(self) -> None:
        text = (
            'a.b = 1\n[t]\nlist = [ # [\n  1,\n  {q.r = 2}]\n[[x."y.z"]]\n[x."y.z".w]\n[[x."y.z"]]\nv = """\nv = '
            '2"""\nu = 1\n'
        )
        found = lines_of(text)
        assert lines_of(text.replace("\n", "\r\n")) == found
        assert found["a", "b"] == 1
        assert (found["t", "list"], found["t", "list", 0], found["t", "list", 1, "q", "r"]) == (3, 4, 5)
        assert (found["x", "y.z", 0], found["x", "y.z", 0, "w"], found["x", "y.z", 1], found["x", "y.z", 1, "v"]) == (
            6,
            7,
            8,
            9,
        )
        assert found["x", "y.z", 1, "u"] == 11


class TestMessages:
    def test_each_has_its_line_and_all_are_told(self, project: Path) -> None:
        write(
            project,
            '[grants]\nallow = [\n  "a.*",\n  "a b",\n]\nalow = []\n[limits]\ncpu_s = -1\nmemory_mb = '
            "true\n[servers.x]\n"
            '[servers.y]\ncommand = "a"\ntools.t.retrys = 3\n[engine]\nconcurrency = "x"\n[budget]\nday = { '
            'usd = "five" }\nmonth = 5\n'
            '[image]\npackages = ["-r x"]\n[commands.c]\n[openapi.o]\nbase_url = 5\n[colours]\n',
        )
        assert sorted(told(project), key=lambda line: int(line.split(":")[1])) == [
            ".go-ent/config.toml:4: grants.allow.1: 'a b' grants nothing: write a tool's full name, "
            "`namespace.*`, or `*`",
            ".go-ent/config.toml:6: grants.alow: there is no such setting; did you mean grants.allow?",
            ".go-ent/config.toml:8: limits.cpu_s: it should be greater than 0",
            ".go-ent/config.toml:9: limits.memory_mb: it should be a whole number",
            ".go-ent/config.toml:10: servers.x: give either command (a program to start) or url (a server to "
            "connect to)",
            ".go-ent/config.toml:13: servers.y.tools.t.retrys: there is no such setting; did you mean "
            "servers.y.tools.t.retries?",
            ".go-ent/config.toml:15: engine.concurrency: it should be a whole number",
            ".go-ent/config.toml:17: budget.day.usd: it should be a number",
            ".go-ent/config.toml:18: budget.month: it should be a table, like { usd = … }",
            ".go-ent/config.toml:20: image.packages.0: '-r x' is not a requirement: write a name with "
            "versions, like 'attrs==25.3.0'",
            ".go-ent/config.toml:21: commands.c.argv: it is required",
            ".go-ent/config.toml:22: openapi.o.document: it is required",
            ".go-ent/config.toml:23: openapi.o.base_url: it should be text",
            ".go-ent/config.toml:24: colours: there is no such setting; there are "
            + ", ".join(sorted(SECTIONS | TOOL_SECTIONS)),
        ]

    @pytest.mark.parametrize("section", sorted(SECTIONS | TOOL_SECTIONS))
    def test_every_section_names_its_line(self, project: Path, section: str) -> None:
        write(project, f"# one\n# two\n{section} = 3.5\n")
        (said,) = told(project)
        assert said.startswith(f".go-ent/config.toml:3: {section}: it should ")

    def test_a_validator_that_looks_at_several_settings_names_the_one_it_means(self, project: Path) -> None:
        write(project, '[engine]\nstrategy = "auto"\ncommand = "gone"\n')
        assert told(project) == [".go-ent/config.toml:3: engine.command: there is no command gone; there are: none"]

    def test_ten_are_told_and_the_others_counted(self, project: Path) -> None:
        write(project, "[engine]\n" + "".join(f"x{number} = 1\n" for number in range(13)))
        with pytest.raises(ConfigError) as caught:
            read_engine_config(project)
        assert len(str(caught.value).splitlines()) == 11
        assert str(caught.value).endswith("\nand 3 more")
        assert len(caught.value.problems) == 13

    def test_what_is_no_toml_has_its_line(self, project: Path) -> None:
        write(project, "[engine]\nconcurrency = \n")
        assert told(project) == [".go-ent/config.toml:2: it is not valid TOML: Invalid value (column 15)"]
        write(project, "[engine]\nconcurrency")
        (said,) = told(project)
        assert said.startswith(".go-ent/config.toml:2: it is not valid TOML: ")

    def test_from_elsewhere_the_file_has_its_whole_name(
        self, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(project, "[engine]\nx = 1\n")
        (project / "below").mkdir()
        monkeypatch.chdir(project / "below")
        (said,) = told(project)
        assert said.startswith(f"{project}/.go-ent/config.toml:2: engine.x: ")

    def test_what_a_setting_holds_is_not_quoted(self, project: Path) -> None:
        write(
            project,
            '[servers.x]\nurl = "http://a"\ntoken = "sk-secret"\nheaders = { A = ["sk-secret"] }\n'
            '[commands.c]\nargv = ["a"]\nset = { K = 55512345 }\n',
        )
        said = "\n".join(told(project))
        assert "servers.x.headers.A: it should be text" in said
        assert "commands.c.set.K: it should be text" in said
        assert "sk-secret" not in said
        assert "55512345" not in said


class TestHostileFiles:
    def test_control_characters_in_a_key_reach_no_message(self, project: Path) -> None:
        write(project, '[engine]\n"\\u001b[2J\\u202e\\n" = 1\n"' + "x" * 5000 + '" = 2\n')
        first, second = told(project)
        assert (
            first
            == r'.go-ent/config.toml:2: engine."\u001b[2J\u202e\n": there is no such setting; there are '
            + ", ".join(
                sorted(EngineConfig.model_fields["engine"].annotation.model_fields)  # type: ignore[union-attr]
            )
        )
        assert all(line.isprintable() for line in (first, second))
        assert len(second) < 600

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("x = 1\n" * 200_000, "it is larger than"),
            ("a." * 200_000 + "a = 1", "it has a key of 32 parts or more"),
            ("[" + '"a" . ' * 100_000 + "a]", "it has a key of 32 parts or more"),
            ("x = " + "[" * 100_000, "nested too deeply"),
            ("x = " + "{a=" * 50_000, "nested too deeply"),
            ("x = " + "1" * 900_000, "it is not valid TOML: a number or a date in it is out of bounds"),
            ("\x00", "it is not valid TOML"),
            ("\x1b[2J = 1", "it is not valid TOML"),
        ],
        ids=["large", "dotted", "header", "lists", "braces", "digits", "nul", "escape"],
    )
    def test_it_is_refused_soon(self, project: Path, text: str, said: str) -> None:
        write(project, text)
        found = told(project)  # tomllib alone would take hours for the longest keys
        assert len(found) == 1
        assert said in found[0]
        assert found[0].isprintable()

    def test_thousands_of_mistakes(self, project: Path) -> None:
        write(project, "[engine]\n" + "".join(f"x{number} = [{{a = 1}}]\n" for number in range(5_000)))
        with pytest.raises(ConfigError) as caught:
            read_engine_config(project)
        assert len(str(caught.value)) < 10_000
        assert str(caught.value).endswith("\nand 4990 more")

    def test_what_is_no_file(self, project: Path) -> None:
        config = project / ".go-ent" / "config.toml"
        config.symlink_to("/dev/zero")
        assert told(project) == [".go-ent/config.toml: it can't be read: it is not an ordinary file"]
        config.unlink()
        config.mkdir()
        assert len(told(project)) == 1
        config.rmdir()
        config.write_bytes(b"[engine]\n# \xff\n")
        assert told(project) == [".go-ent/config.toml:2: it is not valid TOML: it is not UTF-8"]

    def test_a_link_to_an_ordinary_file_is_read(self, project: Path) -> None:
        (project / "shared.toml").write_text("[engine]\nconcurrency = 7\n")
        (project / ".go-ent" / "config.toml").symlink_to(project / "shared.toml")
        assert read_engine_config(project).engine.concurrency == 7


class TestEnvironment:
    def test_it_comes_before_the_file(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(
            project, '[budget]\nday = { usd = 1, tokens = 9 }\n[grants]\nallow = ["a.*"]\n[engine]\nconcurrency = 2\n'
        )
        monkeypatch.setenv("GO_ENT__BUDGET__DAY__USD", "5")
        monkeypatch.setenv("GO_ENT__GRANTS__ALLOW", '["github.*"]')
        monkeypatch.setenv("GO_ENT__ENGINE__COMMAND", "llm")
        monkeypatch.setenv("GO_ENT__COMMANDS__LLM", '{ argv = ["cat"], stdin = true }')
        monkeypatch.setenv("GO_ENT__LIMITS__CPU_S", "null")  # which a file can't say
        monkeypatch.setenv("GO_ENT__IMAGE__PACKAGES", '["attrs==25.3.0"]')
        engine, tools = read_engine_config(project), read_config(project)
        assert (engine.budget.day.usd, engine.budget.day.tokens) == (5, 9)  # type: ignore[union-attr]
        assert (engine.engine.concurrency, engine.engine.command, engine.commands["llm"].stdin) == (2, "llm", True)
        assert (tools.allow, tools.limits.cpu_s) == (("github.*",), None)
        assert project_packages(project) == ("attrs==25.3.0",)

    def test_it_needs_no_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GO_ENT__ENGINE__CONCURRENCY", "8")
        monkeypatch.setenv("GO_ENT__SERVERS__FILES__COMMAND", "cat")
        assert read_engine_config(tmp_path).engine.concurrency == 8
        assert read_config(tmp_path).servers["files"].command == "cat"

    @pytest.mark.parametrize(
        ("name", "path"),
        [
            ("GO_ENT__RUNNERS__CLAUDE_CODE__MODEL", ("runners", "claude-code", "model")),
            ("GO_ENT__RUNNERS__OPEN_CODE__MODEL", ("runners", "open-code", "model")),
            ("GO_ENT__SERVERS__MY_SERVER__URL", ("servers", "My.Server", "url")),
            ("GO_ENT__SERVERS__OTHER__URL", ("servers", "other", "url")),
            ("GO_ENT__COMMANDS__C__SET__API_KEY", ("commands", "c", "set", "API_KEY")),
            ("GO_ENT__SERVERS__X__HEADERS__X-Key", ("servers", "x", "headers", "X-Key")),
            ("GO_ENT__PRICES__My-Model__INPUT", ("prices", "my-model", "input")),
        ],
    )
    def test_a_name_finds_its_setting(self, project: Path, name: str, path: tuple[str, ...]) -> None:
        write(project, '[servers."My.Server"]\nurl = "http://a"\n')
        layers = read_settings(project, {"runners": ("claude-code", "open-code")}, {name: "x"})
        assert dict(layers.variables) == {path: name}
        assert layers.where(path) == name

    @each(
        ("text", "value"),
        [
            ("5", 5),
            ("0.5", 0.5),
            ("true", True),
            ("null", None),
            ("opus", "opus"),
            ('"5"', "5"),
            ("[1, 2]", [1, 2]),
            ('{"a": 1}', {"a": 1}),
            ("{ a = 1 }", {"a": 1}),
            ("", ""),
            ("5\nother = 1", "5\nother = 1"),
            ("NaN", "NaN"),
            ("[" * 100_000, "[" * 100_000),
            ("{a." + "a." * 40_000 + "a=1}", "{a." + "a." * 40_000 + "a=1}"),
        ],
    )
    def test_a_value_is_toml_or_json_or_else_a_text(self, text: str, value: Any) -> None:
        assert literal(text) == value

    @pytest.mark.parametrize(
        ("name", "value", "said"),
        [
            (
                "GO_ENT__BUGDET__DAY",
                "{}",
                "GO_ENT__BUGDET__DAY: bugdet: there is no such setting; did you mean budget?",
            ),
            (
                "GO_ENT__BUDGET__DAI__USD",
                "5",
                "GO_ENT__BUDGET__DAI__USD: budget.dai: there is no such setting; did you mean budget.day?",
            ),
            (
                "GO_ENT__GRANTS__ALOW",
                "[]",
                "GO_ENT__GRANTS__ALOW: grants.alow: there is no such setting; did you mean grants.allow?",
            ),
            ("GO_ENT__BUDGET__DAY__USD", "five", "GO_ENT__BUDGET__DAY__USD: budget.day.usd: it should be a number"),
            ("GO_ENT__BUDGET", '{day = {usd = "x"}}', "GO_ENT__BUDGET: budget.day.usd: it should be a number"),
            (
                "GO_ENT__ENGINE__RUNTIME",
                "5",
                "GO_ENT__ENGINE__RUNTIME: engine.runtime: it should be text: put it into double quotes, within "
                "those of the shell",
            ),
            (
                "GO_ENT__COMMANDS__C__STDIN",
                "true",
                "GO_ENT__COMMANDS__C__STDIN: commands.c.argv: it is required",
            ),
            (
                "GO_ENT__IMAGE__PACKAGES",
                '["-r x"]',
                "GO_ENT__IMAGE__PACKAGES: image.packages.0: '-r x' is not a requirement",
            ),
        ],
    )
    def test_a_mistake_names_the_variable(
        self, project: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
    ) -> None:
        write(project, "[budget]\nhard = true\n")
        monkeypatch.setenv(name, value)
        (found,) = told(project)
        assert found.startswith(said)

    @pytest.mark.parametrize(
        "name", ["GO_ENT__", "GO_ENT__A____B", "GO_ENT__\x1b[2J", "GO_ENT__" + "A__" * 5000 + "A", "GO_ENT__A B"]
    )
    def test_a_name_that_can_be_no_setting(self, project: Path, name: str) -> None:
        with pytest.raises(UnreadableSettings, match="it names no setting: write GO_ENT__SECTION__SETTING") as caught:
            read_layers(project / ".go-ent" / "config.toml", {name: "1"})
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 400

    def test_two_names_of_one_setting(self, project: Path) -> None:
        with pytest.raises(
            UnreadableSettings, match=r"GO_ENT__ENGINE__RUNTIME sets engine\.runtime too; keep one of them"
        ):
            read_layers(
                project / ".go-ent" / "config.toml", {"GO_ENT__ENGINE__RUNTIME": "a", "GO_ENT__engine__runtime": "b"}
            )

    def test_a_table_and_what_is_set_in_it(self, project: Path) -> None:
        write(project, "[budget]\nhard = true\n")
        layers = read_settings(
            project, environ={"GO_ENT__BUDGET__DAY__USD": "2", "GO_ENT__BUDGET": "{ day = { usd = 1, tokens = 3 } }"}
        )
        assert layers.table == {"budget": {"day": {"usd": 2, "tokens": 3}}}
        assert layers.of_file == {"budget": {"hard": True}}

    def test_what_the_file_has_instead_of_a_table_is_told_of_the_file(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(project, "engine = 5\n")
        monkeypatch.setenv("GO_ENT__ENGINE__CONCURRENCY", "8")
        (said,) = told(project)
        assert said.startswith(".go-ent/config.toml:1: engine: it should be a table")

    def test_other_variables_are_no_settings(self, project: Path) -> None:
        environment = dict.fromkeys(
            ("GO_ENT_DATA", "GO_ENT_CACHE", "GO_ENT_RUN", "GO_ENT_OWNER", "GO_ENT_TRUST_PROJECT"), "x"
        )
        assert read_settings(project, environ=environment).table == {}

    def test_a_servers_program_of_the_environment_is_not_the_files_fault(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(project, "[engine]\n")
        (project / ".go-ent" / "config.toml").chmod(0o666)  # which may not start programs
        monkeypatch.setenv("GO_ENT__SERVERS__X__COMMAND", "cat")
        assert read_config(project).servers["x"].command == "cat"

    def test_secrets_are_not_passed_on_to_what_an_agent_uses(self) -> None:
        kept = {
            "GO_ENT__GRANTS__ALLOW": "[]",
            "GO_ENT__BUDGET": "{day = {usd = 1}}",
            "GO_ENT__RUNNERS__X__ENV": '["NAME"]',
        }
        secret = {
            "GO_ENT__SERVERS__X__ENV__KEY": "s",
            "GO_ENT__COMMANDS__X__SET": '{ KEY = "s" }',
            "GO_ENT__SERVERS__X": '{ url = "http://a", headers = { A = "s" } }',
            "GO_ENT_DATA": "/x",
            "KEY": "s",
        }
        assert without_secrets({**kept, **secret}) == kept


class TestNames:
    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.text(max_size=10), min_size=1, max_size=4))
    def test_a_dotted_name_is_toml_and_printable(self, path: list[str]) -> None:
        name = dotted(path)
        assert name.isprintable()
        if all(char < "\ud800" or char > "\udfff" for part in path for char in part) and not any(
            ord(char) > 0xFFFF for part in path for char in part
        ):
            found: Any = tomllib.loads(f"{name} = 1")
            for part in path:
                found = found[part]
            assert found == 1


def objects(node: Any, definitions: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every table in a schema."""
    if isinstance(node, list):
        for item in node:
            yield from objects(item, definitions)
    elif isinstance(node, dict):
        if node.get("type") == "object":
            yield node
        for value in node.values():
            yield from objects(value, definitions)


class TestSchema:
    def configurations(self) -> list[tuple[str, str]]:
        """What the documentation shows of the file."""
        found = []
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
            for text in re.findall(
                r"^```toml(?: \.go-ent/config\.toml)?\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S
            ):
                if tomllib.loads(text).keys() <= SECTIONS | TOOL_SECTIONS:
                    found.append((page.name, text))
        return found

    def test_it_is_a_schema_that_fits_what_the_documentation_shows(self) -> None:
        jsonschema.Draft202012Validator.check_schema(schema())
        validator = jsonschema.Draft202012Validator(schema())
        shown = self.configurations()
        assert len(shown) >= 8
        for page, text in shown:
            assert [error.message for error in validator.iter_errors(tomllib.loads(text))] == [], page

    def test_it_refuses_what_is_not_a_setting(self) -> None:
        validator = jsonschema.Draft202012Validator(schema())
        for text in (
            "colours = 1",
            "[engine]\nspeed = 1",
            "[budget.day]\nusb = 1",
            "[servers.x]\nurl='http://a'\n[servers.x.tools.t]\nretrys=1",
        ):
            assert not validator.is_valid(tomllib.loads(text)), text
        for table in objects(schema(), schema()["$defs"]):
            assert "additionalProperties" in table, table
            assert table["additionalProperties"] is False or table.get("properties") is None

    def test_it_has_each_setting_of_the_models_with_what_it_is_for(self) -> None:
        definitions = schema()["$defs"]

        def same(model: type[BaseModel], table: Mapping[str, Any], where: str) -> int:
            assert set(table["properties"]) == set(model.model_fields), where
            count = 0
            for name, field in model.model_fields.items():
                about = table["properties"][name]
                kind = bare(field.annotation)
                inner = kind if is_model(kind) else named(kind)
                assert about.get("description") or about.get("$ref"), f"{where}.{name} is not described"
                count += 1 + (same(inner, definitions[inner.__name__], f"{where}.{name}") if inner else 0)
            return count

        assert same(whole(), schema(), "") > 100

    def test_the_whole_is_what_both_readers_read(self) -> None:
        assert set(whole().model_fields) == SECTIONS | TOOL_SECTIONS
        assert set(section_kinds()) == TOOL_SECTIONS
        assert below(whole(), "budget") is EngineConfig.model_fields["budget"].annotation


class TestFirstFile:
    def test_as_it_is_it_says_nothing(self) -> None:
        assert tomllib.loads(first_config()) == {}
        assert first_config().startswith("#:schema ./config.schema.json\n")

    def test_every_default_uncommented_is_the_default(self, project: Path) -> None:
        write(project, re.sub(r"(?m)^#(?=[\[a-z])", "", first_config()))
        assert read_engine_config(project) == EngineConfig()
        assert read_config(project) == read_config(project.parent)
        table = tomllib.loads((project / ".go-ent" / "config.toml").read_text())
        assert {
            "image",
            "grants",
            "limits",
            "mcp_json",
            "engine",
            "budget",
            "executions",
            "context",
            "serve",
        } <= table.keys()

    def test_every_example_uncommented_is_valid(self, project: Path) -> None:
        text = re.sub(r'(?m)^# ?(?=\[[\w."-]+\]$|[a-z_]+ = )', "", first_config())
        write(project, text)
        read_config(project)
        read_engine_config(project)
        assert set(tomllib.loads(text)) == SECTIONS | TOOL_SECTIONS
        assert jsonschema.Draft202012Validator(schema()).is_valid(tomllib.loads(text))

    def test_every_setting_is_there(self) -> None:
        def names(model: type[BaseModel]) -> Iterator[str]:
            for name, field in model.model_fields.items():
                yield name
                kind = bare(field.annotation)
                yield from names(kind) if is_model(kind) and name in whole().model_fields else ()

        text = first_config()
        for name in names(whole()):
            assert re.search(rf"(?m)^# ?( +)?\[?{name}\b|[.\[]{name}\.NAME\]", text), name

    def test_the_longest_line_is_not_long(self) -> None:
        assert len(first_config()) < MAX_BYTES
        assert max(map(len, first_config().splitlines())) < 150
