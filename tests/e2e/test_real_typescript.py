"""TypeScript's own compiler reads every stub of the corpus of schemas: `make test-real` installs it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from go_ent.composer.catalogue import typescript_stubs
from tests.composer.catalogue.test_stubs import HOSTILE, drawn, takes, tool
from tests.composer.catalogue.test_typescript_stubs import ISSUES
from tests.e2e.programs import NotInstalled, installed

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
PACKAGES = Path(__file__).with_name("typescript.json")
DRAWN = 1500


def compiler() -> list[str]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node here to run TypeScript's compiler")
    try:
        return [node, str(installed(PACKAGES) / "node_modules/typescript/lib/tsc.js")]
    except NotInstalled as error:
        pytest.skip(f"TypeScript's compiler is not there: {error}")


def test_the_compiler_accepts_every_stub(tmp_path: Path) -> None:
    texts = [typescript_stubs.stubs([drawn(number)]) for number in range(DRAWN)]
    texts.append(typescript_stubs.stubs(drawn(number) for number in range(300)))
    schemas = {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {word: {"$ref": "#/$defs/A"} for word in HOSTILE}}}}
    hostile = [
        tool(takes(**{word: {"enum": [word, "x"], "description": word}}), schemas, name=f"ns.t{number}")
        for number, word in enumerate(HOSTILE)
    ]
    texts += [typescript_stubs.stubs(hostile), typescript_stubs.stubs([ISSUES])]
    files = []
    for number, text in enumerate(texts):
        files.append(tmp_path / f"stub{number}.ts")
        files[-1].write_text(f"export {{}};\n{text}", encoding="utf-8")
    options = ["--noEmit", "--strict", "--target", "es2022", "--lib", "es2022"]
    done = subprocess.run([*compiler(), *options, *map(str, files)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[:4000]


def test_a_call_that_does_not_fit_is_seen(tmp_path: Path) -> None:
    """That it accepts them means something: they say what a tool takes and gives."""
    calls = "const found = await tools.github.search_issues({ q: 1 });\nconst title: number = found[0]!.title;\n"
    (tmp_path / "program.ts").write_text(f"export {{}};\n{typescript_stubs.stubs([ISSUES])}{calls}", encoding="utf-8")
    options = ["--noEmit", "--strict", "--target", "es2022", "--module", "es2022"]
    done = subprocess.run(
        [*compiler(), *options, str(tmp_path / "program.ts")], capture_output=True, text=True, check=False
    )
    assert "Type 'number' is not assignable to type 'string'" in done.stdout
    assert "Type 'string' is not assignable to type 'number'" in done.stdout
