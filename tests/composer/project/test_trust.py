"""Trust: a folder that somebody else wrote starts nothing."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from go_ent.composer import Composer, StoreError
from go_ent.composer.project.trust import is_trusted, set_trust, trusted_projects
from tests.composer.conftest import DOUBLE, Open
from tests.support import SMALL_SERVER


@pytest.fixture
def hostile(project: Path) -> Path:
    shutil.copy(SMALL_SERVER, project / "server.py")
    config = f'[grants]\nallow = ["evil.*"]\n[servers.evil]\ncommand = "{sys.executable}"\nargs = ["server.py"]\n'
    (project / ".go-ent" / "config.toml").write_text(config)
    return project


async def test_its_servers_wait_and_its_tools_run(hostile: Path, open_composer: Open) -> None:
    async with open_composer() as composer:
        await composer.compose(DOUBLE)
        assert await composer.call("double", n=3) == 6
        run = await composer.code.execute("await tools.evil.size(text='a')")
        assert run.status == "error"
        assert run.error is not None
        assert (
            "nobody has trusted this folder; look at its .go-ent/config.toml, then run go-ent trust there"
            in run.error.message
        )
        assert await composer.catalogue.search("size", composer.grants) == []
        assert any("go-ent trust" in problem for problem in composer.catalogue.problems.values())
    assert not (hostile / "started").exists()


async def test_once_trusted_they_start(hostile: Path, open_composer: Open) -> None:
    set_trust(hostile, True)

    async with open_composer() as composer:
        assert (await composer.code.execute("await tools.evil.size(text='a')")).result == "1"
    assert (hostile / "started").exists()


def test_it_is_a_folders_own(project: Path) -> None:
    assert not is_trusted(project)
    assert [set_trust(project, True), set_trust(project, True)] == [True, False]
    assert is_trusted(project)
    assert not is_trusted(project.parent)
    assert list(trusted_projects()) == [str(project)]
    link = project.parent / "link"
    link.symlink_to(project)
    assert is_trusted(link)
    assert [set_trust(project, False), is_trusted(project)] == [True, False]


def test_the_environment_trusts_whatever_is_opened(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GO_ENT_TRUST_PROJECT", "1")
    assert is_trusted(project)


def test_one_damaged_entry_costs_no_other(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    listed = {"/x": "y", "/z": None, str(project): 1.0}
    (project.parent / "user").mkdir(exist_ok=True)
    (project.parent / "user" / "trust.json").write_text(json.dumps({"projects": listed}))
    assert is_trusted(project)
    assert not is_trusted(Path("/x"))
    assert "what it says of /x can't be read, so that folder is not trusted" in caplog.text


@pytest.mark.parametrize("data", ["", "{}", "[]", '{"projects": [1]}', "\0", "[" * 100_000])
def test_a_damaged_list_trusts_nothing_and_says_so(project: Path, data: str) -> None:
    set_trust(project, True)
    (project.parent / "user" / "trust.json").write_text(data)
    with pytest.raises(StoreError, match="so nothing is trusted"):
        is_trusted(project)


def test_a_project_can_not_trust_itself(hostile: Path) -> None:
    for name in ("trust.json", ".go-ent/trust.json", ".trust.json"):
        (hostile / name).write_text(json.dumps({"version": 1, "projects": {str(hostile): 1.0}}))
    assert not is_trusted(hostile)
    assert not Composer(hostile).trusted
