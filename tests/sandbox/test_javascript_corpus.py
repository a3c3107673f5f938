"""Everyday JavaScript and TypeScript: what each program returns and prints is stored, and is what node says where there
is one. Of the TypeScript, 17 programs were compared with what its own compiler makes of them, under node 20.

`python -m tests.sandbox.test_javascript_corpus` writes down what the sandbox says now.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from go_ent.sandbox import Limits, Sandbox
from go_ent.sandbox.worker.languages import Language

FOLDER = Path(__file__).parent / "corpus" / "javascript"
EXPECTED = FOLDER / "expected.json"
RESULT = "//=\n"  # the value of a program stands behind it
NEWER = {"object_group_by", "grouping", "map_set_operations", "set_methods", "iterator_helpers"}  # than node 20
# Node's JSON with what ours has besides: integers of any length, and typed arrays as lists.
NODE = """const plain = (key, value) => typeof value === "bigint" ? { big: String(value) }
  : ArrayBuffer.isView(value) && !(value instanceof Buffer) ? [...value] : value;
(async () => { %s
return (%s) })().then((value) => require("fs").writeFileSync(3, JSON.stringify(value, plain)))"""


def programs(name: str = "everyday.js") -> dict[str, str]:
    parts = re.split(r"^//// ", (FOLDER / name).read_text(), flags=re.MULTILINE)[1:]
    return {name: source for name, _, source in (part.partition("\n") for part in parts)}


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return int(value["big"]) if value.keys() == {"big"} else {key: _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value


def everything() -> dict[str, tuple[str, Language]]:
    of_javascript: dict[str, tuple[str, Language]] = {name: (code, "javascript") for name, code in programs().items()}
    return of_javascript | {name: (code, "typescript") for name, code in programs("everyday.ts").items()}


def test_there_are_many_programs() -> None:
    assert len(everything()) >= 170


def test_each_program_does_what_is_stored() -> None:
    expected = json.loads(EXPECTED.read_text())
    assert expected.keys() == everything().keys()
    with Sandbox(limits=Limits(timeout_s=30)) as box:
        for name, (source, language) in everything().items():
            run = box.run_sync(source, language=language)
            assert run.error is None, f"{name}: {run.error}"
            assert [run.result, run.stdout] == expected[name], name


@pytest.mark.more
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("name", sorted(programs().keys() - NEWER))
def test_node_says_the_same(name: str, tmp_path: Path) -> None:
    body, _, value = programs()[name].partition(RESULT)
    (tmp_path / "program.js").write_text(NODE % (body, value))
    said = subprocess.run(
        ["sh", "-c", "TZ=UTC node program.js 3>value"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    result = json.loads((tmp_path / "value").read_text() or '"nothing"')
    assert [_whole(result), said.stdout] == json.loads(EXPECTED.read_text())[name]


if __name__ == "__main__":
    with Sandbox() as sandbox:
        said = {name: sandbox.run_sync(code, language=language) for name, (code, language) in everything().items()}
    stored = {name: [run.result, run.stdout] for name, run in said.items()}
    EXPECTED.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
