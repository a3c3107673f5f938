"""The documentation is true: its snippets run, its settings can be read, its commands exist, its reference is what
the code says.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from go_ent.composer.config import read_config
from go_ent.engine.cli import app
from go_ent.engine.core.config import read_engine_config
from go_ent.engine.core.outcomes import EXIT_CODES
from go_ent.engine.strategies import parse_plan
from go_ent.engine.workflows.workflow import parse_workflow
from tests.support import ROOT
from tests.support.code import parsed
from tests.support.pages import BLOCKS, COMMANDS, FENCE, KINDS, PAGES, READ, SNIPPETS, Block
from tests.support.rows import each

DECISIONS = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"))


def test_no_block_is_passed_over() -> None:
    """What is of no kind that is looked at here would be skipped, and nobody would know."""
    for block in BLOCKS:
        assert block.kind in KINDS or block.is_file, (
            f"{block.where}: a block of {block.kind or 'no kind'} is not executed"
        )
        assert block.kind != "console" or block.rest in ("", "real"), f"{block.where}: console {block.rest}"
        hidden = (
            block.kind == "text"
            and not block.page.startswith("docs/reference/cli")
            and re.search(r"^\$ ", block.text, re.M)
        )
        assert not hidden, f"{block.where}: a text block with a command: write console"


def test_no_command_hides_in_an_indented_block() -> None:
    for page in PAGES:
        rest = FENCE.sub("", page.read_text(encoding="utf-8"))
        found = re.findall(r"^ {4,}((?:\$ |go-ent |pip |python3? |curl |npx ).*)$", rest, re.M)
        assert found == [], f"{page}: write them as a console block"


def targets() -> list[str]:
    """What pages have `make` do: the sentences and the indented lines."""
    rest = "\n".join(FENCE.sub("", page.read_text(encoding="utf-8")) for page in [*PAGES, ROOT / "CONTRIBUTING.md"])
    return sorted(
        {name for found in re.findall(r"^ {4,}make ([a-z-]+)|`make ([a-z-]+)`", rest, re.M) for name in found if name}
    )


def test_what_make_is_told_to_do_is_there() -> None:
    """`make demo` is run elsewhere, `make test` runs this; the others take minutes, or need programs of npm: they
    are looked at.
    """
    for target in targets():
        done = subprocess.run(
            ["make", "-n", "-o", f"{sys.prefix}/.installed", f"VENV={sys.prefix}", target],
            cwd=ROOT,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("where", "code", "output"), SNIPPETS, ids=[where for where, _, _ in SNIPPETS])
def test_python_snippet(where: str, code: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "snippet.py"
    script.write_text(code, encoding="utf-8")
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "user"))
    printed = io.StringIO()
    with contextlib.chdir(tmp_path / "project"), contextlib.redirect_stdout(printed):
        runpy.run_path(str(script), run_name="__main__")
    assert printed.getvalue() == output


@pytest.mark.parametrize("block", READ, ids=[block.where for block in READ])
def test_settings_plans_and_documents_can_be_read(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if block.kind == "json":
        json.loads(block.text)
        return
    found = tomllib.loads(block.text)
    if "task" in found:
        parse_plan(found)
    elif "step" in found:
        parse_workflow(found, where=block.where, allow_argv=True)
    else:
        monkeypatch.delenv("GO_ENT_TRUST_PROJECT", raising=False)
        (tmp_path / ".go-ent").mkdir()
        (tmp_path / ".go-ent" / "config.toml").write_text(block.text)
        read_config(tmp_path)
        read_engine_config(tmp_path)


def sentences() -> list[tuple[str, str]]:
    """Commands in running text."""
    found = []
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md"]:
        rest = FENCE.sub("", page.read_text(encoding="utf-8"))
        found += [
            (str(page.relative_to(ROOT)), " ".join(text.split())) for text in re.findall(r"`(go-ent [^`]+)`", rest)
        ]
    return sorted(set(found))


def test_commands_in_sentences_are_those_there_are() -> None:
    spelled = [(page, text, command) for page, text in sentences() for command in alternatives(text)]
    for page, text, command in spelled:
        typed = command.partition(" < ")[0].partition(" -- ")[0].replace("…", "X")  # after -- it is another's command
        words = [word for word in shlex.split(typed)[1:] if word != "--help"]
        chain, apps, rest = app.parse_commands(words)
        assert chain, f"{page}: {text}: there is no such command"
        names = (
            {name for argument in apps[-1].assemble_argument_collection() for name in argument.names}
            if apps[-1].default_command
            else set()
        )
        wrong = [word for word in rest if word.startswith("-") and word.partition("=")[0] not in names]
        assert not wrong, f"{page}: {text}: {chain} has no {wrong}"
        assert apps[-1].default_command or not [word for word in rest if not word.startswith("-")], f"{page}: {text}"


def alternatives(text: str) -> list[str]:
    """`go-ent config show|check` is two commands; what is in brackets may be left out."""
    text = text.replace("[", "").replace("]", "")
    words = text.split()
    at = next((number for number, word in enumerate(words) if re.fullmatch(r"[a-z]+(\|[a-z]+)+", word)), None)
    return [text] if at is None else [" ".join([*words[:at], one, *words[at + 1 :]]) for one in words[at].split("|")]


def test_how_many_are_executed(record_property: Callable[[str, object], None]) -> None:
    """The summary of the tests says it: `tests/conftest.py`."""
    there = [one for one in COMMANDS if not one.is_real]
    real = [one.text for one in COMMANDS if one.is_real]
    record_property(
        "documentation",
        f"{len(SNIPPETS)} python snippets and {len(there)} commands of the documentation are executed, "
        f"{len(READ)} settings and plans read",
    )
    record_property(
        "documentation",
        f"{len(real)} commands of the documentation need programs of npm, for make test-real: {'; '.join(real)}",
    )
    record_property(
        "documentation",
        f"of what pages have make do, {', '.join(sorted(set(targets()) - {'demo', 'test'}))} are not executed here",
    )
    assert {"demo", "test"} <= set(targets())
    assert len(SNIPPETS) >= 15
    assert len(there) >= 60


@pytest.mark.more
def test_the_reference_is_what_the_code_says(tmp_path: Path) -> None:
    """`make docs` makes it anew."""
    code = "import json, runpy, sys; print(json.dumps(runpy.run_path(sys.argv[1])['pages']()))"
    command = [sys.executable, "-c", code, str(ROOT / "docs" / "reference" / "generate.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    for name, text in json.loads(done.stdout).items():
        assert (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8") == text, (
            f"{name} is out of date: make docs"
        )


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_readme_is_a_page_that_people_read() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_the_site_has_every_page() -> None:
    """`make site` fails on a page that is not in the navigation; it needs packages that tests do not."""
    named = set(re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M))
    there = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert named == there | {"index.md"}


@each("page", ["architecture.md", *(f"decisions/{name}" for name in DECISIONS)])
def test_files_that_developers_are_sent_to_are_there(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for name in re.findall(r"`([\w.]+(?:/[\w.]+)+)/?`", FENCE.sub("", text)):
        if name.startswith((".go-ent", "etc/")) or not name.endswith((".py", ".md", ".toml", "/")):
            continue
        places = (ROOT, ROOT / "src", ROOT / "sandbox", ROOT / "composer", ROOT / "engine", ROOT / "engine/server")
        assert any((place / name).exists() for place in places), f"{page}: {name} is not there"


def test_decisions_are_listed() -> None:
    listed = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    for name in DECISIONS:
        title = (ROOT / "docs" / "decisions" / name).read_text(encoding="utf-8").splitlines()[0]
        number, _, text = title.removeprefix("# ").partition(". ")
        assert f"{number}. [{text}]({name})" in listed


# What reads as if it were translated, with what to write instead.
CLUMSY = {
    "gone on with": "resumed",
    "go on with": "resume, or continue",
    "goes on with": "resumes, or continues",
    "was not said": "pass the option",
    "all the same": "anyway, or leave it out",
    "may be given more than once": "repeatable",
    "may be left out": "is optional",
    "is not said": "pass the option",
    "to who has": "clients need",
    "of which nobody knows": "that may or may not",
    "at the most": "at most",
    "said again": "repeated",
    "made anew": "rebuilt",
}


# Not those that are made by benchmarks and from tests' names, nor decisions, which are written once.
PROSE = [page for page in PAGES if page.parent.name not in ("benchmarks", "decisions") and page.name != "attacks.md"]


@pytest.mark.parametrize("page", [*PROSE, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"], ids=lambda page: page.name)
def test_pages_are_in_plain_words(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    prose = " ".join((text if page.parent.name == "reference" else FENCE.sub("", text)).lower().split())
    for phrase, instead in CLUMSY.items():
        assert phrase not in prose, f"{page.name}: {phrase!r}: write {instead!r}"


def test_messages_are_in_plain_words() -> None:
    """All texts of the code that are no docstrings, but those of guests, which are built into the image."""
    found = []
    for package in ("composer", "engine", "sandbox/host", "sandbox/images", "sandbox/messages", "sandbox/worker"):
        for path in sorted((ROOT / package).rglob("*.py")):
            nodes = list(ast.walk(parsed(path)))
            docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            found += [
                f"{path.relative_to(ROOT)}:{node.lineno}: {phrase!r}: write {instead!r}"
                for node in nodes
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
                for phrase, instead in CLUMSY.items()
                if phrase in node.value.lower()
            ]
    assert found == []


def test_every_argument_and_setting_is_explained() -> None:
    cli = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^  (?:--[a-z-]+|[A-Z]+)(?: +[A-Z.]+)*(?: +\[.*)?$", cli, re.M) == []
    config = (ROOT / "docs" / "reference" / "config.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `.*\|  \|$", config, re.M) == []


def test_exit_codes_are_documented() -> None:
    text = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    for status, code in EXIT_CODES.items():
        assert re.search(rf"^\| `{status}`.*\| {code} \|$", text, re.M), status
