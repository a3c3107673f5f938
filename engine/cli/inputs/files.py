"""Files of this machine for a run, and what it left saved here: `--file PATH[=NAME]`, `--out DIR`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from go_ent.engine.cli import UsageError
from go_ent.engine.cli.inputs.reading import read_file
from go_ent.engine.cli.terminal.output import short

MOST_FILES = 16 << 20  # bytes of them all, which is a run's own limit


def read_files(named: Iterable[str]) -> dict[str, bytes]:
    """The files for a run, by the names that its code opens: that of the file, or the one after `=`."""
    found: dict[str, bytes] = {}
    total = 0
    for text in named:
        path, _, name = text.partition("=") if not Path(text).exists() else (text, "", "")
        name = name or Path(path).name
        try:
            data = read_file(Path(path), MOST_FILES)
        except OSError as error:
            raise UsageError(f"--file {path}: {error.strerror}") from None
        if name in found:
            raise UsageError(f"--file: two files are called {name}: name one of them, --file {path}=OTHER")
        total += len(data)
        if total > MOST_FILES:
            raise UsageError(f"--file: the files are larger than {MOST_FILES >> 20} MB together")
        found[name] = data
    return found


def save_files(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Save the files that a run has left; where they are. A file that is there is not written over.

    Their names are a guest's: each stays inside the folder, and no link is followed out of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    root = folder.resolve()
    paths: dict[Path, bytes] = {}
    for name, data in files.items():
        path = root / name
        if not path.resolve().is_relative_to(root) or path.resolve() == root:
            raise UsageError(f"--out: the run left a file {short(name)!r}, which would not be inside {folder}")
        if path.exists() or path.is_symlink():
            raise UsageError(f"--out: {folder / name} is there already: nothing was saved; choose an empty folder")
        paths[path] = data
    for path, data in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "xb") as file:
            file.write(data)
    return [folder / path.relative_to(root) for path in paths]
