"""`go-ent completion`: what the Tab key completes in a shell."""

from __future__ import annotations

import contextlib
import hashlib
import os
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from cyclopts import Parameter

from go_ent.composer.project.files import read_bounded, write_whole
from go_ent.engine.cli import UsageError, app
from go_ent.engine.cli.terminal.output import say, show, show_json
from go_ent.sandbox.worker.paths import users_folder

MOST_BYTES = 4 << 20
Shell = Literal["bash", "zsh", "fish"]
JsonFlag = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")]


def bash_command() -> int:
    return show_command("bash")


def zsh_command() -> int:
    return show_command("zsh")


def fish_command() -> int:
    return show_command("fish")


def show_command(shell: Annotated[Shell, Parameter(help="The shell.")], /, *, json_: JsonFlag = False) -> int:
    """Print the script that a shell needs. For this shell alone: `source <(go-ent completion show bash)`."""
    script = _script(shell)
    show_json({"shell": shell, "script": script}) if json_ else show(script)
    return 0


def _script(shell: Shell) -> str:
    """The script, from the cache if the commands are what they were: making it imports them all, for two seconds in
    which a shell that sources it does not start.
    """
    made_of = hashlib.sha256(version("cyclopts").encode())
    for path in sorted(Path(__file__).parent.parent.rglob("*.py")):
        found = path.stat()
        made_of.update(f"{path}\0{found.st_mtime_ns}\0{found.st_size}\0".encode())
    folder = users_folder("GO_ENT_CACHE", "XDG_CACHE_HOME", ".cache") / "completion"
    path = folder / f"{shell}-{made_of.hexdigest()[:32]}"
    with contextlib.suppress(OSError, ValueError):
        return read_bounded(path, MOST_BYTES).decode()
    script = app.generate_completion(shell=shell)
    with contextlib.suppress(OSError):  # what can't be kept is made anew
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for old in folder.glob(f"{shell}-*"):
            old.unlink(missing_ok=True)
        write_whole(path, script.encode(), mode=0o600)
    return script


def install_command(
    shell: Annotated[Shell | None, Parameter(help="The shell; by default the one you are in.")] = None,
    /,
    *,
    startup: Annotated[bool, Parameter(help="Add a line to the shell's start-up file if it needs one.")] = True,
    json_: JsonFlag = False,
) -> int:
    """Install completion for a shell, where that shell looks for it."""
    chosen: Any = shell or _shell()
    before = _startup(chosen)
    path = app.install_completion(shell=chosen, add_to_startup=startup)
    changed = [str(path)] + [str(file) for file, text in before.items() if _read(file) != text]
    if json_:
        show_json({"shell": chosen, "written": changed})
        return 0
    for file in changed:
        say(f"written: {file}")
    say(f"open a new {chosen}, and press Tab after go-ent")
    return 0


def _shell() -> str:
    """The shell that this is started from, else the user's own. Cyclopts would start `ps` to find that out."""
    parent = (_read(Path(f"/proc/{os.getppid()}/comm")) or b"").decode(errors="replace").strip()
    for name in (parent.removeprefix("-"), os.path.basename(os.environ.get("SHELL", ""))):
        if name in get_args(Shell):
            return name
    raise UsageError("which shell this is can't be seen: say go-ent completion install bash, zsh or fish")


def _startup(shell: str) -> dict[Path, bytes | None]:
    """The files that installing may change, and what is in them now."""
    names = {"bash": ".bashrc", "zsh": ".zshrc"}
    return {path: _read(path) for name in ([names[shell]] if shell in names else []) for path in [Path.home() / name]}


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
