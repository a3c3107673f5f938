"""Files that a run left: their names are a guest's, and none leads out of the folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from go_ent.engine.cli import UsageError
from go_ent.engine.cli.inputs.files import read_files, save_files


@pytest.mark.parametrize("name", ["../out", "/etc/out", "a/../../out", "link/out", "."])
def test_none_is_saved_outside(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="would not be inside"):
        save_files(folder, {"good": b"1", name: b"2"})
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["elsewhere", "link", "saved"]


def test_none_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    with pytest.raises(UsageError, match="is there already: nothing was saved"):
        save_files(tmp_path, {"a": b"1", "b": b"2"})
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    assert save_files(tmp_path / "new", {"d/a": b"1"}) == [tmp_path / "new" / "d" / "a"]


def test_files_are_named_by_themselves_or_as_said(tmp_path: Path) -> None:
    (tmp_path / "a=b").write_text("1")
    (tmp_path / "c").write_text("2")
    assert read_files([str(tmp_path / "a=b"), f"{tmp_path / 'c'}=d/e"]) == {"a=b": b"1", "d/e": b"2"}
