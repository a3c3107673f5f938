"""Which servers there are: from TOML tables and from mcpServers files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer.errors import ConfigError
from go_ent.composer.sources.server_config import (
    MAX_FILE,
    Scrubber,
    ServerConfig,
    parse_rate,
    referred,
    resolve,
    servers_from_mcp_json,
    servers_from_table,
)
from tests.support.rows import each


def written(folder: Path, document: Any) -> Path:
    path = folder / "mcp.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def at_line_7(setting: Sequence[str | int]) -> str:
    return "c.toml:7"


class TestTables:
    def test_a_program_and_an_address(self) -> None:
        servers = servers_from_table(
            {
                "my-server": {
                    "command": "npx",
                    "args": ["-y", "x"],
                    "env": {"KEY": "${env:KEY}"},
                    "tools": {"a": {"rate": "2/m"}},
                },
                "remote": {"url": "https://example.com/mcp", "token": "${env:TOKEN}", "timeout_s": 5},
            },
            at_line_7,
        )
        assert list(servers) == ["my_server", "remote"]
        assert servers["my_server"].tools["a"].retries == 2
        assert (servers["my_server"].timeout_s, servers["my_server"].start_timeout_s) == (60, 20)
        assert servers["remote"].token == "${env:TOKEN}"

    @each(
        ("table", "message"),
        [
            ({}, "c.toml:7: servers.x: give either command (a program to start) or url (a server to connect to)"),
            ({"command": "a", "url": "http://b"}, "c.toml:7: servers.x: give either command"),
            ({"command": "a", "headers": {"b": "c"}}, "c.toml:7: servers.x.headers: only for a server with url"),
            (
                {"url": "http://a", "args": ["b"], "env": {"c": "d"}},
                "c.toml:7: servers.x: args, env: only for a server with command",
            ),
            ({"command": "a", "comand": "b"}, "c.toml:7: servers.x.comand: there is no such setting"),
            (
                {"command": "a", "tools": {"t": {"retrys": 1}}},
                "c.toml:7: servers.x.tools.t.retrys: there is no such setting",
            ),
            (
                {"command": "a", "rate": "10 per s"},
                "c.toml:7: servers.x.rate: '10 per s' is not a rate: write 10/s, 100/m or 1000/h",
            ),
            ({"command": "a", "timeout_s": 0}, "c.toml:7: servers.x.timeout_s: it should be greater than 0"),
            ({"command": "a", "timeout_s": float("inf")}, "c.toml:7: servers.x.timeout_s: "),
            ({"command": " "}, "c.toml:7: servers.x.command: it is empty"),
            ({"command": "a", "args": ["${env:}"]}, "c.toml:7: servers.x.args.0: it has ${env: without a name"),
            ({"command": "a", "args": ["a\0b"]}, "c.toml:7: servers.x.args.0: it has a NUL character"),
            ({"url": "ftp://a"}, "c.toml:7: servers.x.url: it must begin with http:// or https://"),
            ({"url": "http://a", "auth": "basic"}, "c.toml:7: servers.x.auth: it should be 'oauth'"),
            (
                {"url": "http://a", "auth": "oauth", "token": "${env:A}"},
                "c.toml:7: servers.x: token, auth: give one of them",
            ),
            ("npx", "c.toml:7: servers.x: it should be a table, like { timeout_s = … }"),
        ],
    )
    def test_what_is_wrong_is_named(self, table: Any, message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            servers_from_table({"x": table}, at_line_7)
        assert str(caught.value).startswith(message)

    def test_a_token_in_the_file_is_refused_and_not_quoted(self) -> None:
        with pytest.raises(ConfigError, match="token: write it as a reference") as caught:
            servers_from_table({"x": {"url": "http://a", "token": "sk-very-secret"}}, at_line_7)
        assert "sk-very-secret" not in str(caught.value)

    def test_a_value_of_the_wrong_type_is_not_quoted(self) -> None:
        with pytest.raises(ConfigError) as caught:
            servers_from_table({"x": {"command": "a", "env": {"KEY": ["sk-very-secret"]}}}, at_line_7)
        assert str(caught.value) == "c.toml:7: servers.x.env.KEY: it should be text"

    def test_two_names_that_become_one(self) -> None:
        with pytest.raises(
            ConfigError,
            match=r'c\.toml:7: servers\."a\.b": its tools would be called a_b.…, and so would those of servers\.a-b',
        ):
            servers_from_table({"a-b": {"command": "x"}, "a.b": {"command": "y"}}, at_line_7)

    def test_a_name_that_can_be_no_namespace(self) -> None:
        with pytest.raises(ConfigError, match=r"c\.toml:7: servers\.1x: '1x' can't be a namespace"):
            servers_from_table({"1x": {"command": "x"}}, at_line_7)


class TestMcpJson:
    def test_the_standard_form(self, tmp_path: Path) -> None:
        path = written(
            tmp_path,
            {
                "mcpServers": {
                    "git-hub": {
                        "command": "npx",
                        "args": ["${PKG:-server}"],
                        "env": {"T": "${TOKEN}"},
                        "alwaysAllow": ["x"],
                    },
                    "cursor": {"command": "a", "env": {"T": "${env:TOKEN}"}, "description": "…"},
                    "Remote": {"type": "http", "url": "https://x/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
                    "untyped": {"url": "https://x/mcp"},
                    "off": {"command": "x", "disabled": True},
                },
                "other": 1,
            },
        )
        servers = servers_from_mcp_json(path)
        assert list(servers) == ["git_hub", "cursor", "remote", "untyped"]
        assert servers["git_hub"].args == ["${env:PKG:-server}"]
        assert servers["git_hub"].env == servers["cursor"].env == {"T": "${env:TOKEN}"}
        assert servers["remote"].headers == {"Authorization": "Bearer ${env:TOKEN}"}

    @pytest.mark.parametrize(
        ("document", "message"),
        [
            ("{", "it is not JSON"),
            ("[" * 100_000, "it is not JSON"),
            ("[]", "it has no object mcpServers"),
            ({"mcpServers": []}, "it has no object mcpServers"),
            ({"mcpServers": {"x": 1}}, "mcpServers.x: it should be an object"),
            (
                {"mcpServers": {"x": {"type": "sse", "url": "http://x"}}},
                "mcpServers.x.type: 'sse' is not one that can be used",
            ),
            ({"mcpServers": {"x": {"type": "http"}}}, "mcpServers.x: give either command"),
            ({"mcpServers": {"x": {"command": 1}}}, "mcpServers.x.command: it should be text"),
        ],
    )
    def test_what_is_wrong_is_named(self, tmp_path: Path, document: Any, message: str) -> None:
        path = written(tmp_path, document)
        with pytest.raises(ConfigError) as caught:
            servers_from_mcp_json(path)
        assert str(caught.value).startswith(f"{path}: {message}")

    def test_files_that_are_none(self, tmp_path: Path) -> None:
        path = tmp_path / "x.json"
        with pytest.raises(ConfigError, match="it can't be read: No such file"):
            servers_from_mcp_json(path)
        with pytest.raises(ConfigError, match="it can't be read: Is a directory"):
            servers_from_mcp_json(tmp_path)
        path.write_bytes(b'{"mcpServers": {"\xff": 1}}')
        with pytest.raises(ConfigError, match="it is not UTF-8 text"):
            servers_from_mcp_json(path)
        path.write_bytes(b" " * (MAX_FILE + 1))
        with pytest.raises(ConfigError, match=f"it is larger than {MAX_FILE} bytes"):
            servers_from_mcp_json(path)

    def test_a_pipe_or_a_device_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path / "pipe", Path("/dev/zero")):
            with pytest.raises(ConfigError, match=f"it can't be read: {path.name} is not an ordinary file"):
                servers_from_mcp_json(path)

    def test_a_link_to_an_ordinary_file_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "link.json"
        path.symlink_to(written(tmp_path, {"mcpServers": {"a": {"command": "x"}}}))
        assert list(servers_from_mcp_json(path)) == ["a"]


class TestReferences:
    def test_resolved_anywhere_in_a_text(self) -> None:
        environ = {"A": "1", "B": "${env:A}"}
        assert resolve("x${env:A}y${env:A}", environ) == "x1y1"
        assert resolve("${env:B}", environ) == "${env:A}"  # a value is a value, not a text with references
        assert resolve("${env:C:-d e}", environ) == "d e"
        assert resolve("${A} $A", environ) == "${A} $A"

    def test_a_missing_variable_is_named_with_its_place(self) -> None:
        with pytest.raises(ConfigError, match=r"^headers\.X: the environment variable TOKEN is not set$"):
            resolve("Bearer ${env:TOKEN}", {"OTHER": "value"}, "headers.X")

    def test_secrets_stay_out_of_a_repr(self) -> None:
        config = ServerConfig(command="x", args=["sk-1"], env={"A": "sk-2"})
        assert "sk-" not in repr(config)
        assert "sk-" not in repr(ServerConfig(url="http://sk-3", headers={"A": "sk-4"}))

    def test_what_references_stand_for(self) -> None:
        assert referred(["a${env:A}b${env:B:-c}", "d"], {"A": "1"}) == {"1", "c"}


class TestScrubber:
    def test_takes_secrets_out_in_the_forms_they_come_in(self) -> None:
        scrub = Scrubber(["pa ss/word", 'quo"te', "longer pa ss/word!"])
        assert scrub("x pa ss/word y") == "x [secret] y"
        assert scrub("?k=pa%20ss%2Fword&l=pa%20ss/word") == "?k=[secret]&l=[secret]"
        assert scrub(r'{"a": "quo\"te"}') == '{"a": "[secret]"}'
        assert scrub("longer pa ss/word!") == "[secret]"
        assert "word" not in repr(scrub)

    def test_words_of_any_message_are_no_secrets(self) -> None:
        assert Scrubber(["", "1", "on"])("1 is on") == "1 is on"

    def test_a_secret_of_several_lines(self) -> None:
        assert Scrubber(["first line\nsecond line"])("the second line") == "the [secret]"


@pytest.mark.parametrize(("text", "rate"), [("10/s", (10, 1.0)), ("100/m", (100, 60.0)), ("5/h", (5, 3600.0))])
def test_rates(text: str, rate: tuple[int, float]) -> None:
    assert parse_rate(text) == rate


@each("text", ["", "0/s", "-1/s", "1.5/s", "10/d", "10", "10/s ", "99999999/s"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(ValueError, match="is not a rate"):
        parse_rate(text)
