"""This project's server in the configuration of an MCP client: what to write where, and writing it so that nothing
is lost.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import stat
import sysconfig
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from go_ent.composer.project.files import TEMPORARY, read_bounded, sync_folder
from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import BadServerName, CannotInstall
from go_ent.engine.settings.show import HIDDEN, masked_arguments
from go_ent.engine.setup.clients import TITLES, USERS_ONLY, Client, Json, Scope, default_scope, entry_of, place_of
from go_ent.engine.setup.commented_json import drop_commented, put_commented
from go_ent.engine.setup.json_edit import NotEditable, drop, put, read
from go_ent.engine.setup.toml_edit import as_toml, drop_toml, put_toml, read_toml
from go_ent.sandbox.children.programs import find_program

MAX_FILE = 32 << 20  # ~/.claude.json holds a history, and grows to megabytes
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
EXPANDED = re.compile(r"\$[\w{]|\{(?:env|file):|%\w+%")  # what clients replace in a command
OURS = ("type", "command", "args")
ENVIRONMENT = ("env", "environment")
# What decides which code the server runs, and whom it trusts: never somebody else's to say.
NOT_KEPT = re.compile(r"(?:GO_ENT_|LD_|DYLD_|PYTHON|XDG_).*|PATH|HOME|NODE_OPTIONS", re.IGNORECASE | re.DOTALL)
WIDE = 80


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """A change to a client's file that was not made yet. Without a difference, there is nothing to do."""

    client: Client
    scope: Scope
    name: str
    file: Path  # where it really is
    link: Path | None  # where the client looks for it, if that is a link
    section: str
    entry: Json
    before: bytes | None = None
    after: bytes | None = None
    there: Any = None  # the entry that is in the file
    wanted: Json | None = None  # what is to be there

    @property
    def project_named(self) -> str:
        """The project that the entry is for."""
        words = self.entry["args"] if "args" in self.entry else self.entry["command"]
        return str(words[-1])

    @property
    def is_toml(self) -> bool:
        return self.file.suffix == ".toml"

    @property
    def changes(self) -> bool:
        return self.after is not None and self.before != self.after

    def paste(self) -> str:
        """The entry as a person would put it in."""
        if self.is_toml:
            return as_toml((self.section, self.name), self.entry)
        return json.dumps({self.section: {self.name: self.entry}}, indent=2, ensure_ascii=False)

    def diff(self) -> list[str]:
        """What would change, of our entry alone: what is beside it, and what others have put into it, may be secret."""
        if not self.changes:
            return []
        head = [f"--- {self.file if self.before is not None else '/dev/null'}", f"+++ {self.file}"]
        if self.before is None:
            added = (self.after or b"").decode().splitlines()
            return [*head, f"@@ -0,0 +1,{len(added)} @@", *(f"+{line}" for line in added)]
        old, new = self._lines(self.there), self._lines(self.wanted, ours=True)
        compared = difflib.unified_diff(old, new, n=len(old), lineterm="")
        return [*head, f"@@ {self.section} @@", *list(compared)[3:]]

    def kept(self) -> list[str]:
        """The names of what is in the entry, was not written by this program, and stays."""
        return [_name(path) for path in _others(self.wanted or {})]

    def _lines(self, entry: object, *, ours: bool = False) -> list[str]:
        if entry is None:
            return []
        shown = _masked(entry, ours=ours)
        if self.is_toml and isinstance(shown, dict):
            return as_toml((self.section, self.name), shown).split("\n")
        text = json.dumps(shown, indent=2, ensure_ascii=False)
        return [f"    {line}" for line in f"{json.dumps(self.name)}: {text}".split("\n")]


def command() -> Path:
    """The go-ent command of this Python, by its full path: a client has another PATH."""
    beside = Path(sysconfig.get_path("scripts")) / "go-ent"
    if os.access(beside, os.X_OK):
        return beside
    found = find_program("go-ent", os.environ.get("PATH"), beside.parent)
    if found is None:
        raise CannotInstall(
            f"there is no go-ent command in {beside.parent} or on PATH: install the package first (pip install go-ent)"
        )
    return Path(found)


def entry_for(client: Client | None, program: Path, project: Path) -> Json:
    """What a client needs to start the server of *project*; without a client, what most of them read."""
    for path in (program, project):
        if EXPANDED.search(str(path)):
            raise CannotInstall(
                f"clients would replace a part of {path}: move it to a folder without $, {{ or % in its name"
            )
    return entry_of(client, program, ["serve", "--profile", "code", "--project", str(project)])


def plan(
    client: Client,
    project: Path,
    *,
    scope: Scope | None = None,
    name: str = "go-ent",
    remove: bool = False,
    program: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> InstallPlan:
    """What installing (or removing) would change. Nothing is written.

    Raises `CannotInstall` for a file that can't be changed with care: its `plan` has the entry to put in by hand. So it
    does for an entry of the project's own file that would decide what the server runs or trusts.
    """
    if not NAME.fullmatch(name):
        raise BadServerName(
            f"a server can't be called {name[:80]!r}: letters, digits, - and _, at most 32, the first no - or _"
        )
    scope = scope or default_scope(client)
    if scope == "project" and client in USERS_ONLY:
        raise CannotInstall(f"{TITLES[client]} keeps its servers for the user alone: --scope user")
    place = place_of(client, scope, project, os.environ if environment is None else environment)
    entry = entry_for(client, program or command(), project)
    file = Path(os.path.realpath(place.file))  # which is no error for a link to itself
    link = None if file == place.base.resolve() / place.file.relative_to(place.base) else place.file
    made = InstallPlan(client, scope, name, file, link, place.section, entry)
    if link is not None and not file.is_relative_to(place.base.resolve()):
        raise CannotInstall(f"{place.file} is a link that leads out of {place.base}, to {file}", made)
    made = replace(made, before=_read(made))
    try:
        return _edited(made, remove=remove)
    except NotEditable as error:
        raise CannotInstall(f"{file} can't be changed by a program: {error}", made) from None


def write(plan: InstallPlan) -> Path | None:
    """Make the change; the backup's path, if there was a file. A file that is no longer what *plan* saw is left as
    it is.
    """
    assert plan.after is not None
    try:
        plan.file.parent.mkdir(parents=True, exist_ok=True)
        backup = None if plan.before is None else _keep(plan.file, plan.before)
        if _read(plan) != plan.before:
            raise CannotInstall(f"{plan.file} was changed meanwhile, and is left as it is: do this again", plan)
        _replace(plan)
    except OSError as error:
        raise CannotInstall(f"{plan.file} can't be written: {error.strerror or error}", plan) from None
    return backup


def _read(plan: InstallPlan) -> bytes | None:
    try:
        data = read_bounded(plan.file, MAX_FILE)
        mode = plan.file.stat().st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CannotInstall(f"{plan.file} can't be read: {error.strerror or error}", plan) from None
    if len(data) > MAX_FILE:
        raise CannotInstall(f"{plan.file} is larger than {MAX_FILE >> 20} MB", plan)
    if not mode & 0o222 or not os.access(plan.file, os.W_OK):
        raise CannotInstall(f"{plan.file} is read-only", plan)
    return data


def _edited(plan: InstallPlan, *, remove: bool) -> InstallPlan:
    """With the file's new content; the old one, if that says it already."""
    try:
        text = (plan.before or b"").decode()
    except UnicodeDecodeError:
        raise NotEditable("it is not UTF-8 text") from None
    found, lenient = (read_toml(text), False) if plan.is_toml else read(text)
    servers = found.get(plan.section, {})
    if not isinstance(servers, dict):
        raise NotEditable(f"{plan.section!r} in it is not an object")
    there = servers.get(plan.name)
    wanted = None if remove else _merged(there, plan.entry)
    plan = replace(plan, there=there, wanted=wanted)
    if wanted is not None and plan.scope == "project":
        _check(plan, wanted)
    if wanted == there:
        return replace(plan, after=plan.before)
    if remove:
        _check_ours(plan)
    path = (plan.section, plan.name)
    if plan.is_toml:
        made = drop_toml(text, path) if wanted is None else put_toml(text, path, wanted)
    elif lenient:
        made = drop_commented(text, path) if wanted is None else put_commented(text, path, wanted)
    else:
        made = drop(text, path) if wanted is None else put(text, path, wanted)
    return replace(plan, after=made.encode())


def _check_ours(plan: InstallPlan) -> None:
    """What is removed is what install wrote: an entry of the same name that starts something else is not."""
    there = plan.there if isinstance(plan.there, dict) else {}
    command, args = there.get("command"), there.get("args", [])
    words = [*(command if isinstance(command, list) else [command]), *(args if isinstance(args, list) else [])]
    if Path(str(words[0])).name != "go-ent" or "serve" not in words[1:]:
        raise CannotInstall(
            f"the entry {plan.name} in {plan.file} was not written by go-ent install: it starts something else", plan
        )
    at = words.index("--project") + 1 if "--project" in words else len(words)
    if at < len(words) and words[at] != plan.project_named:
        raise CannotInstall(f"the entry {plan.name} in {plan.file} is for another project, {words[at]}", plan)


def _check(plan: InstallPlan, wanted: Json) -> None:
    """A project's file comes with the project: its author must not get the person's word for what is in it."""
    found = [
        path
        for path in _others(wanted)
        if path[0] == "envFile" or (path[0] in ENVIRONMENT and NOT_KEPT.fullmatch(path[-1]))
    ]
    if found:
        names = ", ".join(map(_name, found[:10])) + (", …" if len(found) > 10 else "")
        raise CannotInstall(
            f"{plan.file} has an entry {plan.name} already, which sets what the server runs or trusts: {names}. "
            "Remove that from it if it is not yours (--remove takes out the whole entry), or give another name "
            "with --name"
        )


def _others(entry: Json) -> list[tuple[str, ...]]:
    """What of an entry is not ours: its keys, and those of an object in it."""
    found: list[tuple[str, ...]] = []
    for key, value in entry.items():
        if key not in OURS:
            found += [(key, inner) for inner in value] if isinstance(value, dict) and value else [(key,)]
    return found


def _name(path: tuple[str, ...]) -> str:
    return ".".join(part if len(part) <= WIDE else f"{part[: WIDE - 1]}…" for part in path)


def _masked(entry: object, *, ours: bool) -> object:
    """An entry to be shown: names, and no values save those of what starts the server."""
    if not isinstance(entry, dict):
        return HIDDEN
    made: Json = {}
    for key, value in entry.items():
        if key in OURS:
            made[key] = value if ours else _started(value)
        else:
            made[_name((key,))] = {_name((inner,)): HIDDEN for inner in value} if isinstance(value, dict) else HIDDEN
    return made


def _started(value: object) -> object:
    if isinstance(value, list):
        return masked_arguments([str(one) for one in value])
    return masked_arguments([value])[0] if isinstance(value, str) else HIDDEN


def _merged(there: object, entry: Json) -> Json:
    """Our part of an entry renewed, what a person has added to it kept: unless it was for a server of another kind."""
    kind = entry.get("type", "stdio")
    if not isinstance(there, dict) or there.get("type", kind) != kind or "url" in there:
        return entry
    kept = {key: value for key, value in there.items() if key not in OURS}
    if "type" not in there and kind == "stdio":  # which is what it is without
        entry = {key: value for key, value in entry.items() if key != "type"}
    return {**entry, **kept}


def _keep(file: Path, data: bytes) -> Path:
    """A copy beside it, which nobody else may read who could not read the file."""
    mode = stat.S_IMODE(file.stat().st_mode)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(100):
        backup = file.with_name(f"{file.name}.bak-{stamp}{f'-{number}' if number else ''}")
        with contextlib.suppress(FileExistsError):
            handle = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as copy:
                copy.write(data)
                copy.flush()
                os.fchmod(handle, mode)
                os.fsync(handle)
            return backup
    raise OSError(f"there are too many backups of {file.name}")


def _replace(plan: InstallPlan) -> None:
    """Whole or not at all; with the mode and, where that is allowed, the owner that it had."""
    assert plan.after is not None
    handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=plan.file.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(plan.after)
            file.flush()
            if plan.before is None:
                os.fchmod(handle, 0o644 if plan.scope == "project" else 0o600)
            else:
                was = plan.file.stat()
                with contextlib.suppress(PermissionError):
                    os.fchown(handle, was.st_uid, was.st_gid)
                os.fchmod(handle, stat.S_IMODE(was.st_mode))
            os.fsync(handle)
        os.replace(temporary, plan.file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(plan.file.parent)
