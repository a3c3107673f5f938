"""The image cache: a private folder, written atomically under locks, and trusted only as far as it can be checked.

    <cache>/images/<key>/image.json, component.wasm     one per set of sources and packages; of one that was built
                                                        elsewhere, the start of its digest
    <cache>/images/<key>/projects                       the projects that have run something with it, a JSON text a line
    <cache>/compiled/<digest>/<kind>-<target>.cwasm     one per image, kind and machine, with its .json beside it

Loading a compiled artefact runs it: so the folder belongs to the user alone, and an artefact that is not exactly the
one that was written is made again: see `seals.py`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from go_ent.dataclass import dataclass
from go_ent.files import write_whole
from go_ent.sandbox.images.seals import (
    foreign,
    fresh_folder,
    lock,
    log,
    private_folder,
    read_record,
    seal,
    sealed,
)
from go_ent.sandbox.worker.paths import installed_version, users_folder

BuildProgress = Callable[[str], None]
KEY = re.compile(r"[0-9a-f]{32}")
MAX_PROJECTS = 256 << 10  # bytes of the list of projects of an image
KINDS = {"plain": False, "fuel": True}  # whether it counts fuel


def cache_folder() -> Path:
    """`$GO_ENT_CACHE`, or `go-ent` in the user's cache folder. Made if it is not there, mode 0700."""
    return private_folder(cache_path())


def cache_path() -> Path:
    """Where the cache is, without making or mending it."""
    return users_folder("GO_ENT_CACHE", "XDG_CACHE_HOME", ".cache")


@cache
def target() -> str:
    """What a compiled artefact depends on besides the image: wasmtime and the CPU."""
    features = ""
    try:
        with open("/proc/cpuinfo") as lines:
            features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        pass
    text = f"{platform.system()} {platform.machine()} {features}"
    return f"wasmtime{installed_version('wasmtime')}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Image:
    """A guest image. Its digest is that of its component: two builds of one source are two images."""

    folder: Path
    key: str
    digest: str
    packages: tuple[str, ...]
    memory_bytes: int
    built: str
    remade: str  # why its guests can't be reset between runs and are made anew; "" if they can
    language: str = "python"

    @property
    def component(self) -> Path:
        return self.folder / "component.wasm"

    def artefact(self, kind: str = "plain", progress: BuildProgress | None = None) -> Path:
        """The compiled form, made now if it is not there: `plain`, or `fuel`, which counts instructions."""
        from go_ent.sandbox.images.ensure import compile_component

        path, extra = self._compiled(kind)
        folder = path.parent
        if problem := foreign(folder):
            log.warning("%s is not to be trusted (%s): it is made again", folder, problem)
            fresh_folder(folder)
        if sealed(path, extra):
            return path
        with lock(folder / f".{kind}.lock"):
            if not sealed(path, extra):
                compile_component(self.component, path, kind, progress)
                seal(path, extra)
        return path

    def is_compiled(self, kind: str) -> bool:
        """Whether that form is there, so that nobody has to wait for it."""
        path, extra = self._compiled(kind)
        return path.exists() and not foreign(path.parent) and sealed(path, extra)

    def _compiled(self, kind: str) -> tuple[Path, dict[str, str]]:
        """Where the compiled form is, and what its seal says of it."""
        folder = private_folder(self.folder.parent.parent / "compiled") / self.digest
        extra = {"image": self.digest, "kind": kind, "target": target()}
        return folder / f"{kind}-{extra['target']}.cwasm", extra

    @classmethod
    def load(cls, folder: Path) -> Image | None:
        """The image in *folder*, or None if there is none that can be trusted."""
        path = folder / "image.json"
        try:
            if not path.exists():
                return None
            if problem := foreign(folder):
                raise ValueError(problem)
            record = read_record(path)
            image = cls(
                folder,
                record["key"],
                record["digest"],
                tuple(record["packages"]),
                record["memory_bytes"],
                record["built"],
                record.get("remade", "it was built by an older version"),
                record.get("language", "python"),
            )
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning("%s is not an image (%s): it is made again", folder, error)
            return None
        return image if sealed(image.component, {"image": image.digest}) else None


def scratch_folder() -> Path:
    """Where builds are put together: in the cache, so that what is done can be moved to its place in one step."""
    return private_folder(cache_folder() / "scratch")


def images_folder() -> Path:
    return private_folder(cache_folder() / "images")


def list_images() -> list[Image]:
    """The images in the cache, newest first."""
    found = [image for folder in images_folder().iterdir() if (image := Image.load(folder)) is not None]
    return sorted(found, key=lambda image: image.built, reverse=True)


def find_image(digest: str) -> Image | None:
    """The image of that digest, if it is in the cache: not one that was built again from the same sources."""
    return next((image for image in list_images() if image.digest == digest), None)


def note_project(image: Image, project: Path) -> None:
    """Remember that *project* has run something with the image, so that it is not pruned while that may go on."""
    name = str(project.absolute())
    if (image.digest, name) in _noted:
        return
    with lock(images_folder() / f".{image.key}.lock"), contextlib.suppress(FileNotFoundError):
        known = projects_of(image)
        if known is not None and project.absolute() not in known:
            there = [one for one in known if os.path.isdir(one)]  # those that are gone make room
            lines = "".join(f"{json.dumps(str(one))}\n" for one in [*there, Path(name)])
            write_whole(image.folder / "projects", lines[: MAX_PROJECTS + 1].encode(), mode=0o600)
    _noted.add((image.digest, name))


_noted: set[tuple[str, str]] = set()


def projects_of(image: Image) -> list[Path] | None:
    """The projects that have run something with the image; None if that is not known, or if there are too many to
    remember.
    """
    try:
        with open(image.folder / "projects", "rb") as file:
            data = file.read(MAX_PROJECTS + 1)
        found = [json.loads(line) for line in data.splitlines()] if len(data) <= MAX_PROJECTS else None
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError):
        return None
    if found is None or not all(isinstance(one, str) and one.startswith("/") and "\0" not in one for one in found):
        return None
    return [Path(one) for one in found]


def prune_images(keep: set[str]) -> tuple[list[str], int]:
    """Remove every image whose folder's name is not in *keep*, and what was compiled from them; what and how many
    bytes. One that can't be removed stays, and is named in the log.
    """
    removed, freed = [], 0
    digests = set()
    for folder in sorted(folder for folder in images_folder().iterdir() if KEY.fullmatch(folder.name)):
        if folder.name in keep:
            image = Image.load(folder)
            digests |= {image.digest} if image else set()
            continue
        with _named(folder), lock(images_folder() / f".{folder.name}.lock"):
            freed += _remove(folder)
            removed.append(folder.name)
    compiled = cache_folder() / "compiled"
    for folder in sorted(compiled.iterdir()) if compiled.is_dir() else []:
        if folder.name not in digests:
            with _named(folder), contextlib.ExitStack() as held:  # not while somebody compiles into it
                for kind in KINDS if folder.is_dir() else ():
                    held.enter_context(lock(folder / f".{kind}.lock"))
                freed += _remove(folder)
    return removed, freed


@contextlib.contextmanager
def _named(folder: Path) -> Iterator[None]:
    """One folder's trouble is not the next one's."""
    try:
        yield
    except OSError as error:
        log.warning("%s can't be removed: %s", folder, error.strerror or error)


def _remove(folder: Path) -> int:
    """How many bytes are free now."""
    size = sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())
    shutil.rmtree(folder)
    return size
