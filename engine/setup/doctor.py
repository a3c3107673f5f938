"""What is wrong on this machine or in this project, and what to do about each of it. Nothing is changed by looking.

A check that is `needed` keeps go-ent from working if it fails; the others are told because somebody may wonder.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import platform
import shutil
import stat
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from go_ent.composer import Composer
from go_ent.composer.composed.source import Broken
from go_ent.composer.composed.store import composed_stores
from go_ent.composer.config import Config, read_config
from go_ent.composer.errors import ConfigError
from go_ent.composer.known_tools import unmatched_grants
from go_ent.composer.project.files import STATE, user_data
from go_ent.composer.project.image import ready_image
from go_ent.composer.project.items import apart
from go_ent.composer.project.trust import VARIABLE, is_trusted
from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import EngineError
from go_ent.engine.prompts import all_skills
from go_ent.engine.setup.servers import Servers
from go_ent.engine.setup.trust_list import wants
from go_ent.sandbox import SandboxError
from go_ent.sandbox.children.programs import find_program
from go_ent.sandbox.images.cache import cache_path

if TYPE_CHECKING:
    from go_ent.engine.engine import Engine
    from go_ent.engine.runners.base.runner import Availability
    from go_ent.sandbox import Wall

IMAGE_MB = 500  # that a build takes for a while
PROBE = "import sys; sys.version.split()[0]"
MOST_FILES = 200_000
MOST_NAMED = 3
MOST_COMPARED = 200  # executions that can be resumed, whose journals are looked at
RAISE = {
    "landlock": "use a kernel of 5.13 or newer, with landlock among those that /sys/kernel/security/lsm names "
    "(lsm=landlock,… at boot)",
    "seccomp": "use a kernel with CONFIG_SECCOMP_FILTER, or have the container's own filter allow seccomp(2)",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    said: str
    fix: str | None = None  # a command, or a line of configuration
    needed: bool = True
    broken: bool = False  # not needed by go-ent itself, but the project wants it: a server


async def examine(engine: Engine, *, deep: bool = False) -> list[Check]:
    """Everything there is to look at. *deep* also starts and asks the servers that the configuration names."""
    project = engine.project
    parts: dict[str, Callable[[], Awaitable[list[Check]]]] = {
        "machine": lambda: asyncio.to_thread(machine, project),
        "settings": lambda: asyncio.to_thread(settings, project),
        "records": lambda: asyncio.to_thread(recorded, project),
        "sandbox": lambda: _sandbox(engine, project),
        "composed tools": lambda: _composed(engine),
        "runtimes": lambda: _runtimes(engine),
        "servers": lambda: _servers(engine, deep=deep),
    }
    checks: list[Check] = []
    for name, look in parts.items():
        wrong: dict[str, str] = {}
        with apart(name, wrong):
            checks += await look()
        checks += [Check(name, False, f"can't be looked at: {why}") for why in wrong.values()]
    return checks


async def _runtimes(engine: Engine) -> list[Check]:
    return [_runtime(name, found) for name, found in (await engine.runtimes()).items()]


async def _composed(engine: Engine) -> list[Check]:
    """Composed tools: those that can't be called, and what in their histories is no version. Needs an image to look
    at them.
    """
    stores = composed_stores(engine.project)
    checks: list[Check] = []
    there = 0
    for store in stores:
        wrong: dict[str, str] = {}
        with apart(str(store.folder), wrong):
            names = await asyncio.to_thread(store.scan)
            there += len(names)
            checks += [
                Check("version", False, said, "remove the file if nobody of you put it there", needed=False)
                for said in await asyncio.to_thread(store.ignored)
            ]
        checks += [Check("composed tools", False, f"{folder}: {why}", needed=False) for folder, why in wrong.items()]
    if not there:
        return checks
    if await asyncio.to_thread(ready_image, engine.project, trusted=False) is None:
        said = f"{there}, which are looked at once there is an image"
        return [*checks, Check("composed tools", True, said, needed=False)]
    async with await asyncio.to_thread(
        Composer, engine.project, config=Config(), trusted=False, workers=1, build=False
    ) as composer:
        await composer.composed.load()
        broken = [
            *composer.composed.broken.values(),
            *(tool for tool in composer.composed.shadowed if isinstance(tool, Broken)),
        ]
        count = len(composer.composed.found)
        checks.append(Check("composed tools", True, f"{count} can be called", needed=False))
        for name, changed in (await composer.outdated()).items():
            said = f"{name} requires {', '.join(changed)}, which changed since it was saved or tested"
            checks.append(Check("composed tool", False, said, f"go-ent tool test {name}", needed=False))
        for tool in broken:
            back = (
                f"edit it, or go-ent tool rollback {tool.name} {tool.last_version}"
                if tool.last_version
                else "edit its file, or remove it"
            )
            checks.append(
                Check(
                    "composed tool", False, f"{tool.name} ({tool.scope}) is broken: {tool.reason}", back, needed=False
                )
            )
    return checks


def _runtime(name: str, found: Availability) -> Check:
    if found.ok:
        return Check(name, True, found.version or "ready", needed=False)
    return Check(
        name, False, found.reason, found.fix or f"mend it, or name another in [runners.{name}] command", needed=False
    )


def machine(project: Path) -> list[Check]:
    """What does not depend on a configuration that can be read."""
    linux = platform.system() == "Linux"
    made = platform.python_implementation()
    fits = sys.version_info >= (3, 11) and made == "CPython"
    checks = [
        Check("go-ent", True, version("go-ent")),
        Check(
            "platform",
            linux,
            f"{platform.system()} {platform.machine()}",
            None if linux else "use Linux: nothing else is supported",
        ),
        Check("python", fits, f"{made} {platform.python_version()}", None if fits else "install CPython 3.11 or newer"),
    ]
    cache = cache_path()
    return [
        *checks,
        *_folder("cache", cache, size=True),
        *_folder("user data", user_data()),
        *_disk(cache, project),
        _isolation(),
    ]


def _folder(name: str, folder: Path, *, size: bool = False) -> Iterator[Check]:
    """A folder of this user's own: there or makeable, writable, and closed to what others would put there."""
    there = _nearest(folder)
    mine = f"set GO_ENT_{'CACHE' if name == 'cache' else 'DATA'} to a folder of your own"
    if not os.access(there, os.W_OK | os.X_OK):
        yield Check(name, False, f"{folder} can't be written", mine)
        return
    if not folder.exists():
        yield Check(name, True, f"{folder} (not made yet)")
        return
    if folder.stat().st_uid != os.getuid():
        yield Check(name, False, f"{folder} belongs to another user", mine)
        return
    held, open_to_others = _look_through(folder)
    if open_to_others:
        shown = ", ".join(str(path) for path in open_to_others[:MOST_NAMED])
        said = f"others can write to {shown}" + (
            f" and {len(open_to_others) - MOST_NAMED} more" if len(open_to_others) > MOST_NAMED else ""
        )
        yield Check(name, False, said, f"chmod -R go-w {folder}")
        return
    yield Check(name, True, f"{folder}, {held / 1e6:,.0f} MB" if size else str(folder))


def _look_through(folder: Path) -> tuple[int, list[Path]]:
    """How large it is, and what of it group or world can write."""
    held, exposed, todo = 0, list[Path](), [folder]
    for _ in range(MOST_FILES):
        if not todo:
            break
        at = todo.pop()
        with contextlib.suppress(OSError):  # it was removed meanwhile
            status = at.lstat()
            if stat.S_ISLNK(status.st_mode):
                continue
            if status.st_mode & 0o022:
                exposed.append(at)
            if stat.S_ISDIR(status.st_mode):
                todo += at.iterdir()
            else:
                held += status.st_size
    return held, exposed


def _nearest(folder: Path) -> Path:
    return next(one for one in (folder, *folder.parents) if one.exists())


def _disk(cache: Path, project: Path) -> Iterator[Check]:
    for what, folder in (("disk (cache)", cache), ("disk (project)", project)):
        free = shutil.disk_usage(_nearest(folder)).free / 1e6
        enough = free > (IMAGE_MB if folder == cache else 50)
        fix = None if enough else "go-ent image prune" if folder == cache else "go-ent executions prune --max-size 100M"
        yield Check(what, enough, f"{free:,.0f} MB free", fix)


def _isolation() -> Check:
    """What the kernel has; whether it is in force around a worker is asked of one (`shut_in`)."""
    from go_ent.sandbox.hardening.landlock import version as landlock

    try:
        found = f"version {landlock()}"
    except OSError:
        found = "no"
    seccomp = "yes" if Path("/proc/sys/kernel/seccomp/actions_avail").exists() else "no"
    said = (
        "code runs in WebAssembly, in worker processes without rights of their own; this kernel has seccomp: "
        f"{seccomp}, landlock: {found}"
    )
    return Check("isolation", True, said, needed=False)


def shut_in(walls: Iterable[Wall]) -> Check:
    """What a worker that has just run something told of the walls around it."""
    missing = [wall for wall in walls if not wall.stands]
    standing = ", ".join(f"{wall.name} ({wall.said})" if wall.said else wall.name for wall in walls if wall.stands)
    if not missing:
        return Check("workers", True, f"shut in: {standing}", needed=False)
    lacking = ", ".join(f"{wall.name} ({wall.said})" for wall in missing)
    fix = next(
        (RAISE[wall.name] for wall in missing if wall.name in RAISE),
        "see what keeps this process from giving up rights",
    )
    return Check("workers", False, f"run without {lacking}; in force: {standing or 'nothing'}", fix, needed=False)


def settings(project: Path) -> list[Check]:
    """What the project's configuration says; `ConfigError` if it can't be read."""
    is_project = (project / STATE).is_dir()
    writable = os.access(project / STATE if is_project else project, os.W_OK | os.X_OK)
    said = str(project) if is_project else f"{project} is none yet"
    mend = None if is_project else "go-ent init"
    if not writable:
        said, mend = (
            f"{said}, and can't be written: nothing can be recorded there",
            f"chmod -R u+w {project}",
        )
    checks = [Check("project", writable, said, mend)]
    config = read_config(project)
    checks.append(
        Check("configuration", True, "valid" if (project / STATE / "config.toml").exists() else "none: the defaults")
    )
    checks += [Check("withheld", False, line, "go-ent trust", needed=False) for line in config.withheld.values()]
    granted = ", ".join(config.allow) or "composed tools and functions only"
    asked = f"; approval is asked for {', '.join(config.approve)}" if config.approve else ""
    checks.append(Check("grants", True, granted + asked))
    checks += [
        Check("grant", False, one, "correct it under [grants], or go-ent revoke it", needed=False)
        for one in unmatched_grants(project, config)
    ]
    for skill in all_skills(project):
        if skill.problem:
            said = f"{skill.name} can't be used: {skill.problem}"
            checks.append(Check("skill", False, said, f"edit .go-ent/skills/{skill.name}", needed=False))
    trusted = is_trusted(project)
    if things := wants(project, look=trusted):
        by = f" by {VARIABLE}" if os.environ.get(VARIABLE) else ""
        said = f"trusted{by}" if trusted else f"not trusted, so {len(things)} things are not started or used"
        checks.append(
            Check("trust", trusted, said, None if trusted else "go-ent trust (it lists them, and asks)", needed=False)
        )
    return checks


def recorded(project: Path) -> list[Check]:
    """What was recorded: can it be read?"""
    return [*_index(project), _ledger(project), *_locks(project)]


def _index(project: Path) -> Iterator[Check]:
    from go_ent.engine.storages import open_store

    store = open_store(project)
    found = store.index.check()
    fix = "go-ent executions reindex"
    if found is None:
        yield Check("executions", True, "none yet")
    elif found.problem:
        yield Check("executions", False, found.problem, fix, needed=False)
    elif unreadable := store.index.missing():
        for name, why in unreadable.items():
            yield Check(
                "execution",
                False,
                f"{name} can't be used: {why}",
                f"mend or remove {store.storage.where(name)}",
                needed=False,
            )
    elif found.behind or found.known != found.there:
        yield Check(
            "executions",
            False,
            f"the index has {found.known} of {found.there} executions; the next look mends it",
            fix,
            needed=False,
        )
    else:
        yield Check("executions", True, f"{found.there}, all in the index")
        resting = [row.id for row in store.rows(limit=1000, status="interrupted")]
        if resting:
            said = f"{len(resting)} can be resumed, the newest is {resting[0]}"
            yield Check("interrupted", True, said, f"go-ent resume {resting[0]}", needed=False)
        for execution_id in resting[:MOST_COMPARED]:
            with contextlib.suppress(EngineError, OSError):  # what can't be read is told by status
                if store.load(execution_id).damage:
                    said = f"the journal of {execution_id} lacks records that were there"
                    yield Check("journal", False, said, f"go-ent status {execution_id} says which", needed=False)


def _ledger(project: Path) -> Check:
    from go_ent.engine.storages import open_storages

    try:
        with open_storages(project).ledger.reading():
            return Check("budget", True, "its account can be read")
    except EngineError as error:
        return Check("budget", False, str(error), "move the file away, as it says: then the budget begins anew")


def _locks(project: Path) -> Iterator[Check]:
    """A lock dies with its process, so one that is held is held by a process that lives."""
    held = []
    folders = [project / STATE, project / STATE / "executions", cache_path() / "images"]
    for path in (
        one
        for folder in folders
        if folder.is_dir()
        for one in folder.iterdir()
        if one.name.endswith((".lock", ".filling"))
    ):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(str(path))
    if held:
        said = f"another process works with {', '.join(held[:MOST_NAMED])}"
        yield Check("locks", True, said, "wait for it; a lock goes with its process", needed=False)
    else:
        yield Check("locks", True, "none is held")


async def _sandbox(engine: Engine, project: Path) -> list[Check]:
    """The image, and whether code runs in it."""
    from go_ent.composer.project.image import wanted_key
    from go_ent.sandbox import Limits, Sandbox
    from go_ent.sandbox.images.cache import Image, target

    try:
        key = await asyncio.to_thread(partial(wanted_key, project, trusted=engine.trusted))
        folder = cache_path() / "images" / key
        image = await asyncio.to_thread(Image.load, folder) if folder.is_dir() else None
    except SandboxError as error:
        return [Check("image", False, str(error), "mend [image] in .go-ent/config.toml")]
    if image is None:
        return [
            Check(
                "image",
                False,
                "not built yet: the first run builds it, in about half a minute",
                "go-ent image build",
                needed=False,
            )
        ]
    compiled = cache_path() / "compiled" / image.digest / f"plain-{target()}.cwasm"
    size = sum(path.stat().st_size for path in (image.component, compiled) if path.exists()) / 1e6
    packages = ", ".join(image.packages) or "standard library only"
    checks = [Check("image", True, f"{image.digest[:12]}, built {_age(image.built)}, {size:,.0f} MB, {packages}")]
    if not compiled.exists():
        said = f"the image was not compiled for this machine yet ({target()})"
        return [*checks, Check("sandbox", False, said, "go-ent image build", needed=False)]
    try:
        started = time.monotonic()
        async with Sandbox(limits=Limits(timeout_s=20.0), workers=1, image=image) as box:
            run = await box.run(PROBE)
            walls, remade = box.walls, box.remade
        took = (time.monotonic() - started) * 1000
    except SandboxError as error:
        return [*checks, Check("sandbox", False, str(error), "go-ent image prune --all; go-ent image build")]
    if run.status != "completed":
        why = run.status if run.error is None else str(run.error.message)
        return [
            *checks,
            Check("sandbox", False, f"code does not run: {why}", "go-ent image prune --all; go-ent image build"),
        ]
    guests = f"each run gets a new guest: {remade}" if remade else "guests are reset between runs"
    said = f"Python {run.result}, ran code in {took:.0f} ms; {guests}"
    return [*checks, Check("sandbox", True, said), shut_in(walls)]


def _age(built: str) -> str:
    with contextlib.suppress(ValueError):
        at = datetime.fromisoformat(built).timestamp()
        minutes = max(0.0, time.time() - at) / 60
        ago = f"{minutes:.0f} min" if minutes < 60 else f"{minutes / 60:.0f} h"
        ago = ago if minutes < 48 * 60 else f"{minutes / 1440:.0f} days"
        return f"{time.strftime('%Y-%m-%d %H:%M', time.localtime(at))}, {ago} ago"
    return built


async def _servers(engine: Engine, *, deep: bool) -> list[Check]:
    config = await asyncio.to_thread(read_config, engine.project)
    names = [*config.servers, *config.apis]
    unusable = [
        Check(f"server {name}", False, why, "mend it where it says", needed=False, broken=True)
        for name, why in config.unusable.items()
    ]
    if not names:
        return unusable
    if not deep or not engine.trusted:
        unusable += _missing_programs(config)
        if not deep:
            return [*unusable, Check("servers", True, f"{', '.join(names)}: not asked", needed=False)]
        said = "not asked, for the project is not trusted"
        return [*unusable, Check("servers", False, said, "go-ent trust", needed=False)]
    checks = unusable
    for answer in await Servers(engine.project, config).ask(names):
        if answer.problem:
            wrong = Check(f"server {answer.name}", False, answer.problem, answer.remedy, needed=False, broken=True)
            checks.append(wrong)
        else:
            said = f"answers, {len(answer.tools)} tools"
            checks.append(Check(f"server {answer.name}", True, said, needed=False))
            notes = [*answer.notes, *(f"{name} {what}" for name, what in answer.changes.items() if what != "is new")]
            checks += [Check(f"server {answer.name}", False, note, needed=False) for note in notes]
    return checks


def _missing_programs(config: Config) -> list[Check]:
    """The servers whose program is nowhere: that is seen without starting any."""
    found = []
    for name, server in config.servers.items():
        command = getattr(server, "command", None)
        if isinstance(command, str) and find_program(command, os.environ.get("PATH"), Path.cwd()) is None:
            fix = f"install it, or change [servers.{name}]"
            found.append(
                Check(f"server {name}", False, f"there is no program {command}", fix, needed=False, broken=True)
            )
    return found


def explain_config(error: ConfigError, project: Path) -> list[Check]:
    """What there is to say when the configuration can't be read: at least the machine."""
    wrong = [Check("configuration", False, one, "mend that, then go-ent doctor again") for one in error.problems]
    return [*machine(project), *wrong]
