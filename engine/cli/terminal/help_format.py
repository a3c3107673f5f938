"""Help: all that a command's docstring says; without a terminal in two columns, for a pager, a file or `grep`."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cyclopts.help import PlainFormatter

if TYPE_CHECKING:
    from cyclopts import App
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

WIDEST_NAME = 30
# The library's own have greys and a cyan that nobody can read on a light background.
STYLES = {
    "cyclopts.name": "bold",
    **dict.fromkeys(("cyclopts.choices", "cyclopts.env_var", "cyclopts.default", "cyclopts.border"), "dim"),
}
BEFORE = (
    "Before any command: -C DIR (or --project DIR) works in that folder; --quiet, --json; --no-color. Each command has "
    "an example: go-ent COMMAND --help."
)


class Columns(PlainFormatter):
    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        rows = [(_name(entry), _meaning(entry, console)) for entry in panel.entries if entry.display_labels]
        if not rows:
            return
        width = min(WIDEST_NAME, max(len(name) for name, _ in rows))
        print_line = console.file.write
        print_line(f"{panel.title}:\n")
        for name, meaning in rows:
            lines = textwrap.wrap(meaning, max(20, console.width - width - 4)) or [""]
            if len(name) > width:
                print_line(f"  {name}\n")
                lines.insert(0, "")
            for at, line in enumerate(lines):
                first = name if at == 0 and len(name) <= width else ""
                if first or line:
                    print_line(f"  {first:<{width}}  {line}".rstrip() + "\n")
        print_line("\n")


def tell_all(app: App, words: list[str], examples: Mapping[str, str]) -> None:
    """Have the help of the command that *words* name say what its docstring does, and not its first line alone; and
    end with an example.
    """
    chain, apps, _ = app.parse_commands([word for word in words if word not in ("--help", "-h")])
    last = apps[-1]
    if not chain:
        app.help_epilogue = BEFORE
    if last.default_command is None:
        return
    said = inspect.getdoc(last.default_command) or str(last.help)
    if "Example: " not in said and (example := examples.get(" ".join(chain))):
        said = f"{said}\n\nExample: {example}"
    last.help = "\n\n".join(" ".join(part.split()) for part in said.split("\n\n"))


def _name(entry: HelpEntry) -> str:
    return ", ".join(entry.display_labels_with_metavar)


def _meaning(entry: HelpEntry, console: Console) -> str:
    whole = console.options.update(width=10_000)
    said = ["".join(segment.text for segment in console.render(entry.description or "", whole)).strip()]
    if entry.choices:
        said.append(f"[{', '.join(entry.choices)}]")
    if entry.default is not None:
        said.append(f"[default: {entry.default}]")
    if entry.required:
        said.append("[required]")
    return " ".join(part for part in said if part)
