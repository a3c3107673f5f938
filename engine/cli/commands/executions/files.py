"""The files that the code of an execution left: listed, printed, saved."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from go_ent.composer.project.numbers import whole
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.inputs.files import save_files
from go_ent.engine.cli.terminal.output import aside, plain, say, short, show, show_json, tty
from go_ent.engine.cli.terminal.tables import table
from go_ent.engine.core.ids import short_id
from go_ent.engine.executions.kept_files import KeptFile, kept_files, read_file
from go_ent.engine.executions.store import ExecutionStore
from go_ent.sandbox.media.kinds import Media
from go_ent.sandbox.messages.near_names import did_you_mean, near


class LeftFiles:
    """The files of an execution, or of one of its steps. Its methods are what can be done with them."""

    def __init__(self, store: ExecutionStore, execution_id: str, step: str | None) -> None:
        self._store, self._id, self._step = store, execution_id, step
        found = [file for file in kept_files(store, execution_id) if step in (None, file.step)]
        found.sort(key=lambda file: (whole(file.step) or 0, file.step))  # of lines that end in any order, by number
        self._files = {file.path: file for file in found}

    def list_all(self, *, json_: bool) -> None:
        files = self._files.values()
        if json_:
            show_json(
                [{"name": file.path, **file.model_dump(include={"mime_type", "size", "digest"})} for file in files]
            )
        elif files:
            rows = [[file.path, file.mime_type, f"{file.size:,}"] for file in files]
            table(rows, ["file", "type", "bytes"], right=["bytes"])
        else:
            self._say_none()

    def save(self, names: Sequence[str], folder: Path, *, json_: bool) -> None:
        """Save the files of these names, or all of them."""
        chosen = [self._named(name) for name in names] or list(self._files.values())
        saved = save_files(folder, {file.path: self._read(file).data for file in chosen})
        if json_:
            show_json([str(path) for path in saved])
            return
        for path in saved:
            say(f"saved: {short(str(path))}", err=True)
        if not saved:
            self._say_none()

    def print_one(self, names: Sequence[str]) -> None:
        """A file as it is; on a terminal a text without what that would obey, a picture as it can be shown."""
        if len(names) > 1:
            raise UsageError("--file prints one file: --out DIR saves several")
        media = self._read(self._named(names[0]))
        if not tty(sys.stdout):
            with aside():
                sys.stdout.buffer.write(media.data)
                sys.stdout.buffer.flush()
        elif media.text is not None:
            show(plain(media.text))
        elif media.kind == "image":
            from go_ent.engine.cli.pictures.show import show_pictures

            show_pictures([media])
        else:
            size = f"{len(media.data):,} bytes"
            raise UsageError(
                f"{short(media.name)} is {media.mime_type}, {size}: nothing for a terminal; --out DIR saves it"
            )

    def _named(self, name: str) -> KeptFile:
        """The file that is meant: by its whole name, or by the name that it has in its step."""
        file = self._files.get(name) or self._files.get(f"{self._step}/{name}")
        if file is None:
            listed = f"; go-ent output {short_id(self._id)} --files lists them" if self._files else "; it left none"
            hint = did_you_mean(near(name[:255], self._files, 3)) or listed
            raise UsageError(f"{short_id(self._id)} has no file {short(name)}{hint}")
        return file

    def _read(self, file: KeptFile) -> Media:
        return read_file(self._store, self._id, file.path)

    def _say_none(self) -> None:
        step = f"step {short(self._step)} of " if self._step else ""
        say(f"{step}{short_id(self._id)} left no files", err=True)
