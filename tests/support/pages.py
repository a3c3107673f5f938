"""The pages of the documentation, and what is in them to be executed. What can't be is checked; a block of any other
kind fails.

    ```python             is run; the ```text block behind it is what it prints
    ```console            commands, run in their order, in one folder for each page, with what they print
    ```console real       needs Claude Code, opencode or npx: `make test-real` does the same; here it is counted, and named
    ```LANGUAGE FILE      is a file in that folder
    ```toml               is settings, a plan or a workflow: read as such
    ```json               is read
    ```text               shows something: it may not hold a command

In a console block `…` stands for anything within a line, an id for the newest execution of the folder (in what is
printed, for any id), and a port for a free one. A command that ends in `&` goes on until the page ends; what it is
shown to print is waited for. Commands in a sentence, `go-ent …`, must be those of the command line, with their options.
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=indent)(?P=fence)[ ]*$", re.M | re.S
)
KINDS = {"python", "console", "toml", "json", "text"}


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    kind: str
    rest: str  # of the line that opens it
    text: str
    before: str  # the kind of the block just above it

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_file(self) -> bool:
        return bool(self.rest) and self.kind != "console"


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text, before, end = page.read_text(encoding="utf-8"), "", 0
        for match in FENCE.finditer(text):
            kind, _, rest = match["info"].strip().partition(" ")
            above = before if not text[end : match.start()].strip() else ""
            yield Block(
                str(page.relative_to(ROOT)),
                text.count("\n", 0, match.start()) + 1,
                kind,
                rest.strip(),
                match["text"],
                above,
            )
            before, end = kind, match.end()


@dataclass(frozen=True)
class Command:
    where: str
    page: str
    text: str
    output: str
    is_real: bool

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


def commands() -> Iterator[Command]:
    for block in BLOCKS:
        if block.kind == "console":
            first, *parts = re.split(r"^\$ ", block.text, flags=re.M)
            assert not first, f"{block.where}: a console block begins with a command"
            for part in parts:
                text, _, output = part.replace("\\\n", "").partition("\n")
                yield Command(block.where, block.page, text, output, block.rest == "real")


def python_snippets() -> Iterator[tuple[str, str, str]]:
    for at, block in enumerate(BLOCKS):
        if block.kind == "python" and not block.rest:
            after = BLOCKS[at + 1] if at + 1 < len(BLOCKS) else None
            shown = after is not None and (after.kind, after.before, after.page) == ("text", "python", block.page)
            yield block.where, block.text, after.text if shown and after is not None else ""


BLOCKS = list(blocks())
SNIPPETS = list(python_snippets())
COMMANDS = list(commands())
READ = [block for block in BLOCKS if block.kind in ("toml", "json") and not block.is_file]
