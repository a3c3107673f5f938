"""What a project says of its fleet, and what it is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="the fleet's tests need its packages: make test-fleet installs them")

from go_ent.composer.errors import ConfigError
from go_ent.composer.project import trust
from go_ent.engine.core.config import FleetConfig, read_engine_config
from go_ent.engine.core.errors import Untrusted
from go_ent.engine.fleet.database import Address
from go_ent.engine.fleet.execution_storage import PostgresStorage
from go_ent.engine.fleet.opening import open_fleet
from go_ent.engine.setup.trust_list import wants
from go_ent.engine.storages import open_storages

URL = "postgresql://ann:hunter2@db.example.com/fleet"


def project_with(tmp_path: Path, text: str) -> Path:
    (tmp_path / ".go-ent").mkdir()
    (tmp_path / ".go-ent" / "config.toml").write_text(text)
    return tmp_path


@pytest.mark.parametrize("setting", ["url_env", "session_url_env", "key_env"])
def test_a_secret_in_the_file_is_refused_and_not_repeated(tmp_path: Path, setting: str) -> None:
    project = project_with(tmp_path, f'[fleet]\n{setting} = "{URL}"\n')
    with pytest.raises(ConfigError, match="give the NAME of an environment variable") as raised:
        read_engine_config(project)
    assert "hunter2" not in str(raised.value)


def test_a_url_in_the_file_is_no_setting(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"fleet\.url: there is no such setting; did you mean fleet\.url_env"
    ) as raised:
        read_engine_config(project_with(tmp_path, f'[fleet]\nurl = "{URL}"\n'))
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("value", ["", "db.example.com", "mysql://a@b/c", "postgresql://ann:hunter2@db"])
def test_a_variable_that_holds_no_url_is_told(value: str) -> None:
    with pytest.raises(ConfigError, match=r"\$FLEET") as raised:
        Address.of(FleetConfig(url_env="FLEET"), {"FLEET": value})
    assert "hunter2" not in str(raised.value)


def test_an_address_shows_no_secret() -> None:
    address = Address.of(FleetConfig(url_env="FLEET"), {"FLEET": URL})
    assert "hunter2" not in f"{address} {address!r}"


def test_a_folder_that_nobody_trusts_chooses_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", URL)
    project = project_with(tmp_path, '[fleet]\nurl_env = "DATABASE_URL"\n')
    with pytest.raises(Untrusted, match=r"the fleet of \$DATABASE_URL"):
        open_storages(project, trusted=False)
    assert wants(project) == ["fleet: executions, budget and tools are in the Postgres of $DATABASE_URL"]
    assert isinstance(open_storages(project, trusted=True).executions, PostgresStorage)


def test_the_packages_of_a_fleet_are_loaded_only_for_one(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from go_ent.engine import Engine\n"
        "import go_ent.engine.cli.commands.run\n"
        "Engine(Path(sys.argv[1]))\n"
        "print([m for m in sys.modules if m.startswith(('psycopg', 'dbos', 'sqlalchemy', 'go_ent.engine.fleet'))])"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_keys_are_shared_and_rotated(tmp_path: Path) -> None:
    old, new = "a" * 40, "b" * 40
    config = FleetConfig(url_env="FLEET", key_env="KEY")
    try:
        open_fleet(tmp_path, config, {"FLEET": URL, "KEY": old})
        mark = trust.seal("text")
        open_fleet(tmp_path, config, {"FLEET": URL, "KEY": f"{new}, {old}"})
        assert trust.is_sealed("text", mark)
        assert trust.seal("text") != mark
        open_fleet(tmp_path, config, {"FLEET": URL, "KEY": new})
        assert not trust.is_sealed("text", mark)
        with pytest.raises(ConfigError, match=r"from \$KEY, which does not hold one of at least 32 characters"):
            open_fleet(tmp_path, config, {"FLEET": URL, "KEY": f"{new},short"})
    finally:
        trust.share_keys()
    assert not trust.is_sealed("text", mark)
