"""Building an image: a component of the guest's world for each language, which wasmtime compiles."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path

from go_ent.dataclass import dataclass
from go_ent.files import write_whole
from go_ent.sandbox.children.python import run_python
from go_ent.sandbox.errors import ImageError
from go_ent.sandbox.images import javascript
from go_ent.sandbox.images.cache import KINDS, BuildProgress, Image, images_folder, scratch_folder
from go_ent.sandbox.images.immortal import make_immortal
from go_ent.sandbox.images.proof import problem_of
from go_ent.sandbox.images.seals import digest_of, fresh_folder, lock, log, seal
from go_ent.sandbox.worker.paths import installed_version, package_folder, worker_path

GUEST = Path(__file__).parent.parent / "guest"
BUILD_TIMEOUT_S = 600


def to_stderr(line: str) -> None:
    """Progress for a person: on a terminal one line that is written over, elsewhere nothing but the end."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{line}" + ("\n" if line.endswith(".") else ""))
        sys.stderr.flush()
    elif line.endswith("."):
        print(line, file=sys.stderr)


@cache
def source_key(packages: str = "") -> str:
    """What an image is made of: the guest's sources, the tools that build it, the packages baked in."""
    state = hashlib.sha256()
    for path in sorted(GUEST.rglob("*")):
        if path.suffix in (".py", ".wit"):
            state.update(f"{path.relative_to(GUEST)}\0".encode() + path.read_bytes() + b"\0")
    for module in ("immortal.py", "proof.py"):  # what is proved of it is on record with it
        state.update((Path(__file__).parent / module).read_bytes())
    state.update(
        f"{installed_version('componentize-py')}\0{installed_version('RestrictedPython')}\0{installed_version('tzdata')}\0{packages}".encode()
    )
    return state.hexdigest()[:32]


@cache
def javascript_key() -> str:
    """What the JavaScript image is made of: the engine, the guest's sources, and what makes an image of them."""
    state = hashlib.sha256()
    for part in (*javascript.parts(), (Path(__file__).parent / "proof.py").read_bytes()):
        state.update(hashlib.sha256(part).digest())
    return state.hexdigest()[:32]


def ensure_image(progress: BuildProgress | None = None, language: str = "python") -> Image:
    """The standard image of a language: from the cache, or built now, once per machine and version. The image is the
    language: nothing else of the sandbox knows which one a guest speaks.
    """
    if language == "python":
        return build_image(source_key(), (), None, progress)
    return _ensured(
        javascript_key(), Recipe("JavaScript sandbox image", "a second", _make_javascript, language), progress
    )


def build_image(
    key: str, packages: tuple[str, ...], baked: Path | None, progress: BuildProgress | None = None
) -> Image:
    """The Python image of that key: from the cache, or built."""
    what = f"sandbox image with {', '.join(packages)}" if packages else "sandbox image"
    recipe = Recipe(what, "about half a minute", partial(_make_python, packages, baked), "python", packages)
    return _ensured(key, recipe, progress)


@dataclass(frozen=True)
class Recipe:
    """How an image is made: `make` gets an empty folder, and leaves `component.wasm` in it."""

    what: str
    takes: str
    make: Callable[[Path], None]
    language: str
    packages: tuple[str, ...] = ()


def _ensured(key: str, recipe: Recipe, progress: BuildProgress | None) -> Image:
    """The image of that key: from the cache, or built. Two processes that want the same one build it once."""
    folder = images_folder() / key
    image = Image.load(folder)
    if image is not None:
        return image
    with lock(images_folder() / f".{key}.lock"):
        image = Image.load(folder)
        if image is None:
            image = _build(folder, key, recipe, progress or to_stderr)
    return image


def _build(folder: Path, key: str, recipe: Recipe, progress: BuildProgress) -> Image:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="image-", dir=scratch_folder()) as temporary:
        component = Path(temporary) / "component.wasm"
        with Ticker(progress, f"building the {recipe.what} (once, {recipe.takes})"):
            recipe.make(Path(temporary))
        image = _install(component, folder, Origin(key, recipe.packages, recipe.language), progress)
    progress(f"built the {recipe.what} in {time.monotonic() - started:.0f} s.")
    log.info("built image %s", image.digest)
    return image


@dataclass(frozen=True)
class Origin:
    """What an image was made of."""

    key: str
    packages: tuple[str, ...] = ()
    language: str = "python"


def adopt_image(component: Path, digest: str, origin: Origin, progress: BuildProgress | None = None) -> Image:
    """Take an image that was built elsewhere into the cache. Only its component travels: it is proved and compiled
    here, like one that was built here. The file is moved away.

    It is beside the machine's own build of that key, if there is one. `ImageError` if it is not what *digest* says.
    """
    folder = images_folder() / digest[:32]
    with lock(images_folder() / f".{folder.name}.lock"):
        image = Image.load(folder)
        if image is not None and image.digest == digest:
            return image
        if digest_of(component) != digest:
            raise ImageError(f"the image {digest[:16]} is damaged: its content is another")
        return _install(component, folder, origin, progress or to_stderr)


def _install(component: Path, folder: Path, origin: Origin, progress: BuildProgress) -> Image:
    """Move a component to its place, sealed; prove it, compile it, and write down what it is."""
    snapshot = component.read_bytes()
    component.chmod(0o600)
    digest = digest_of(component)
    target = fresh_folder(folder) / "component.wasm"
    os.replace(component, target)
    seal(target, {"image": digest})
    built = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with ThreadPoolExecutor(1) as beside:  # compiling is another process's work
        proof = beside.submit(problem_of, snapshot)
        artefact = Image(folder, origin.key, digest, origin.packages, 0, built, "").artefact("plain", progress)
    if proof.result():
        log.warning("each run of image %s gets a new guest, which is slow: %s", digest, proof.result())
    record = {
        "key": origin.key,
        "digest": digest,
        "packages": list(origin.packages),
        "memory_bytes": _memory_of(artefact),
        "built": built,
        "remade": proof.result(),
        "language": origin.language,
    }
    write_whole(folder / "image.json", json.dumps(record, indent=1).encode(), mode=0o600)
    loaded = Image.load(folder)
    if loaded is None:
        raise ImageError(f"the image that was just put into {folder} can't be read back")
    return loaded


def _make_python(packages: tuple[str, ...], baked: Path | None, folder: Path) -> None:
    """By componentize-py, from the guest's sources and the packages; then its objects are made immortal."""
    if packages and baked is None:
        raise ImageError("the image was removed while its packages were looked up; try again")
    stage, component = folder / "stage", folder / "component.wasm"
    shutil.copytree(GUEST, stage / "guest", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(
        package_folder("RestrictedPython"), stage / "RestrictedPython", ignore=shutil.ignore_patterns("__pycache__")
    )
    (stage / "packed_zones.py").write_text(f"ZONES = {_zones()!r}\n")
    if baked is not None:
        shutil.copytree(baked, stage, dirs_exist_ok=True)
    _componentize(stage, component)
    snapshot = bytearray(component.read_bytes())
    make_immortal(snapshot)
    component.write_bytes(snapshot)


def _make_javascript(folder: Path) -> None:
    """By wasmtime alone, from the engine that a package has and our own JavaScript."""
    code = (
        "import sys, json; path, engine, target = json.loads(sys.argv[1]); sys.path[:0] = path\n"
        "from go_ent.sandbox.images.javascript import build; build(engine, target)"
    )
    order = json.dumps([worker_path(), str(javascript.engine()), str(folder / "component.wasm")])
    _call(["-S", "-c", code, order], "building the JavaScript image", {}, folder)


def _zones() -> dict[str, bytes]:
    """The time zones of the tzdata package, packed; the guest has no file system to read them from."""
    folder = package_folder("tzdata") / "zoneinfo"
    names = (package_folder("tzdata") / "zones").read_text().split()
    return {name: zlib.compress((folder / name).read_bytes(), 9) for name in sorted(names)}


def _componentize(stage: Path, component: Path) -> None:
    nothing = stage.parent / "no-packages"  # or componentize-py would offer this environment's own packages
    nothing.mkdir()
    arguments = [
        "-c",
        "import componentize_py; componentize_py.script()",
        "-d",
        str(stage / "guest" / "world.wit"),
        "-w",
        "guest",
        "componentize",
        "-p",
        str(stage),
        "guest.app",
        "-o",
        str(component),
    ]
    environment = {"VIRTUAL_ENV": str(nothing), "PATH": os.defpath, "HOME": str(nothing)}
    _call(arguments, "componentize-py", environment, nothing)


def compile_component(component: Path, artefact: Path, kind: str, progress: BuildProgress | None) -> None:
    """Compile in a process of its own: it takes a gigabyte for ten seconds."""
    with tempfile.TemporaryDirectory(prefix=".compile-", dir=artefact.parent) as temporary:
        made = Path(temporary) / "made.cwasm"
        code = (
            "import sys, json; path, source, target, fuel = json.loads(sys.argv[1]); sys.path[:0] = path\n"
            "from go_ent.sandbox.worker.machine import compile_file; compile_file(source, target, fuel=fuel)"
        )
        path = worker_path()
        order = json.dumps([path, str(component), str(made), KINDS[kind]])
        with Ticker(progress or to_stderr, f"compiling the sandbox image for this machine ({kind})"):
            _call(["-S", "-c", code, order], "wasmtime", {}, Path(temporary))
        made.chmod(0o600)
        os.replace(made, artefact)


def _memory_of(artefact: Path) -> int:
    """How much memory a guest of this image has before it does anything."""
    code = (
        "import sys, json; path, artefact = json.loads(sys.argv[1]); sys.path[:0] = path\n"
        "from go_ent.sandbox.worker.machine import Machine; "
        "print(Machine(artefact).guest().meter.size())"
    )
    path = worker_path()
    return int(_call(["-S", "-c", code, json.dumps([path, str(artefact)])], "wasmtime", {}, artefact.parent))


def _call(arguments: list[str], what: str, environment: dict[str, str], folder: Path) -> str:
    try:
        done = run_python(arguments, env=environment, timeout_s=BUILD_TIMEOUT_S, cwd=folder)
    except subprocess.TimeoutExpired:
        raise ImageError(f"{what} did not finish within {BUILD_TIMEOUT_S} s") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise ImageError(f"{what} failed with exit code {done.returncode}:\n{said}")
    return done.stdout


class Ticker:
    """Says every second that something is going on, and for how long."""

    def __init__(self, progress: BuildProgress, what: str) -> None:
        self._progress = progress
        self._what = what
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def _tick(self) -> None:
        started = time.monotonic()
        while True:
            self._progress(f"{self._what} … {time.monotonic() - started:.0f} s")
            if self._done.wait(1.0):
                return

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()
