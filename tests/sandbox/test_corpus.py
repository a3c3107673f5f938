"""Programs in the style of public code: the everyday ones run as they are, the hostile ones are refused or fail safely.

The head of each file says what is expected of it, one `# name: value` comment a line:

* `corpus/everyday`: `expect` is the result as JSON, `stdout` (optional) the output as a JSON string.
* `corpus/refused`: `expect` is the status; optional are `line` (counted in the file, its head included), `kind`, and
  `limits`, the run's limits as a JSON object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from go_ent.sandbox import Run, Sandbox, Status

CORPUS = Path(__file__).parent / "corpus"
EVERYDAY = sorted((CORPUS / "everyday").glob("*.py"))
REFUSED = sorted((CORPUS / "refused").glob("*.py"))
FIELDS = {"everyday": {"expect", "stdout"}, "refused": {"expect", "line", "kind", "limits"}}
FIELD = re.compile(r"# (\w+): (.*)")


def head(path: Path) -> dict[str, str]:
    """The fields that the file's first comment lines give."""
    fields: dict[str, str] = {}
    known = FIELDS[path.parent.name]
    for line in path.read_text(encoding="utf-8").split("\n"):
        match = FIELD.fullmatch(line)
        if match is None or match[1] not in known or match[1] in fields:
            break
        fields[match[1]] = match[2]
    return fields


def run_file(box: Sandbox, path: Path, limits: dict[str, float] | None = None) -> Run:
    run = box.run_sync(path.read_text(encoding="utf-8"), limits=limits)
    assert isinstance(run, Run)
    return run


@pytest.fixture(scope="module")
def corpus_box() -> Iterator[Sandbox]:
    with Sandbox() as box:
        yield box


@pytest.mark.parametrize("path", EVERYDAY, ids=lambda path: path.stem)
def test_everyday_code_runs_unmodified(corpus_box: Sandbox, path: Path) -> None:
    fields = head(path)
    run = run_file(corpus_box, path)
    assert run.status == "completed", run.error
    assert run.result == json.loads(fields["expect"])
    if "stdout" in fields:
        assert run.stdout == json.loads(fields["stdout"])


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_hostile_code_is_refused_or_fails_safely(corpus_box: Sandbox, path: Path) -> None:
    fields = head(path)
    run = run_file(corpus_box, path, json.loads(fields["limits"]) if "limits" in fields else None)
    assert run.status == fields["expect"], (run.result, run.error)
    assert run.result is None
    if run.status == "completed":
        return
    assert run.error is not None
    if "kind" in fields:
        assert run.error.kind == fields["kind"]
    if "line" in fields:
        assert run.error.line == int(fields["line"])
    if run.status == "refused":
        assert run.error.hint
        if "line" in fields:
            assert run.error.column is not None
            assert run.error.source_line is not None


def test_every_head_is_complete() -> None:
    for path in EVERYDAY:
        json.loads(head(path)["expect"])
    for path in REFUSED:
        assert head(path)["expect"] in get_args(Status), path


def test_corpus_is_large_enough() -> None:
    assert len(EVERYDAY) >= 60
    assert len(REFUSED) >= 60
