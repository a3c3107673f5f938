"""The built wheel works in an empty environment elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support import ROOT


@pytest.mark.long
def test_wheel_outside_the_repo(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["GO_ENT_CACHE"] = str(tmp_path / "cache")

    def call(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path / "dist"), str(ROOT))
    (wheel,) = (tmp_path / "dist").glob("go_ent-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        top = {name.split("/")[0] for name in archive.namelist()}
    assert {name for name in top if not name.endswith((".data", ".dist-info"))} == {"go_ent"}
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env" / "bin" / "python")
    pins = [
        line.removesuffix(" \\")
        for line in (ROOT / "requirements.txt").read_text().splitlines()
        if "==" in line.partition(";")[0]
    ]
    (tmp_path / "pins.txt").write_text("\n".join(pins))  # without digests: pip would want one of the wheel itself
    call(python, "-m", "pip", "install", "--quiet", "--constraint", str(tmp_path / "pins.txt"), str(wheel))
    go_ent = str(tmp_path / "env" / "bin" / "go-ent")
    assert call(go_ent, "exec", "-c", "1+1") == "2\n"
    assert call(python, "-I", "-m", "go_ent", "exec", "-c", "2+1") == "3\n"
    assert call(go_ent, "tool", "add", "rank_groups").startswith("rank_groups: version 1")
    assert "rank_groups" in call(go_ent, "tool", "list")
    assert (
        call(
            python, "-c", "from go_ent.sandbox import Sandbox\nwith Sandbox() as box: print(box.run_sync('2+2').result)"
        )
        == "4\n"
    )
