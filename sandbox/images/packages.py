"""Pure-Python packages for an image: resolved by pip, inspected and unpacked with pyodide-build's wheel helpers.

pyodide-build does not install beside pydantic 2 on Python 3.11, so it lives in an environment of its own in the
cache, on every Python version alike (docs/decisions/003-baking-packages.md). Nothing of a package is imported or run
on the host: its code runs for the first time inside the guest that the image is made from.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from go_ent.sandbox.children.programs import with_safe_path
from go_ent.sandbox.children.python import run_python
from go_ent.sandbox.errors import PackageError
from go_ent.sandbox.images.cache import Image, cache_folder, images_folder, scratch_folder
from go_ent.sandbox.images.seals import lock, private_folder

_VERSION = r"(?:==|>=|<=|~=|!=|<|>)\s*[A-Za-z0-9.*+!_-]+"
# Each space has one place where it fits: a project's file must not make looking at it take for ever.
REQUIREMENT = re.compile(
    rf"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._ -]+\])?\s*({_VERSION}(?:\s*,\s*{_VERSION})*\s*,?)?"
)
HELPER_PACKAGE = "pyodide-build==0.25.1" if sys.version_info < (3, 12) else "pyodide-build>=0.30,<1"
# 0.25.1 was written for the wheel and setuptools of its day.
HELPER_EXTRAS = ["wheel<0.46", "setuptools<80"] if sys.version_info < (3, 12) else []
INDEX_SETTINGS = (
    "PATH HOME LANG PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_CONFIG_FILE PIP_FIND_LINKS PIP_TRUSTED_HOST PIP_CERT "
    "SSL_CERT_FILE "
    "https_proxy http_proxy no_proxy HTTPS_PROXY HTTP_PROXY NO_PROXY"
).split()
NATIVE = (".so", ".pyd", ".dylib", ".dll", ".a", ".o")
MAX_WHEEL_BYTES = 64 << 20
MAX_UNPACKED_BYTES = 256 << 20

_HELPER = """
import contextlib, json, shutil, sys, tempfile
from pathlib import Path
from pyodide_build.common import parse_top_level_import_name, unpack_wheel
wheels, target = json.loads(sys.argv[1])
names = []
for wheel in map(Path, wheels):
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        unpack_wheel(wheel, Path(folder))
        for unpacked in Path(folder).iterdir():
            shutil.copytree(unpacked, target, dirs_exist_ok=True)
    names += parse_top_level_import_name(wheel) or []
print(json.dumps(names))
"""


def check_requirements(packages: list[str], where: Path | str) -> list[str]:
    """The requirements, refused where one is not a plain name with versions: no URL, no path, no option."""
    for requirement in packages:
        if not REQUIREMENT.fullmatch(requirement.strip()):
            raise PackageError(
                f"{where}: {requirement!r} is not a requirement: write a name with versions, like 'attrs==25.3.0'"
            )
    return [requirement.strip() for requirement in packages]


@contextlib.contextmanager
def bake(packages: tuple[str, ...], key: str) -> Iterator[Path | None]:
    """A folder with the packages' code and a module that lists what to import; None if the image exists already."""
    if Image.load(images_folder() / key) is not None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="packages-", dir=scratch_folder()) as temporary:
        wheels = _download(packages, Path(temporary) / "wheels")
        for wheel in wheels:
            inspect_wheel(wheel)
        baked = Path(temporary) / "baked"
        modules = _unpack(wheels, baked)
        for name in modules:
            if not name.isidentifier():
                raise PackageError(f"a package offers the module {name!r}, which can't be imported")
        listing = f"MODULES = {sorted(modules)!r}\nSUBMODULES = {_submodules(baked, modules)!r}\n"
        (baked / "baked_packages.py").write_text(listing)
        yield baked


def _download(packages: tuple[str, ...], folder: Path) -> list[Path]:
    folder.mkdir()
    options = ["--only-binary", ":all:", "--no-input", "--disable-pip-version-check", "--quiet", "--dest", str(folder)]
    # The guest's own Python and platform: a wheel that does not fit it is not looked at.
    target = ["--platform", "any", "--python-version", "3.14", "--implementation", "py", "--abi", "none"]
    done = _run("-m", "pip", "download", *options, *target, "--", *packages)
    if done.returncode:
        raise PackageError(_why_not(packages, done.stderr, options))
    wheels = sorted(folder.iterdir())
    for wheel in wheels:
        if wheel.suffix != ".whl":
            raise PackageError(f"{wheel.name} is not a wheel")
    return wheels


def _why_not(packages: tuple[str, ...], said: str, options: list[str]) -> str:
    """Tell a package with native code, which is refused by name, from one that does not exist."""
    errors = [line for line in said.splitlines() if line.startswith("ERROR")]
    wanted = re.findall(r"requirement ([A-Za-z0-9._-]+)", " ".join(errors)) or [
        re.split(r"[^A-Za-z0-9._-]", packages[0])[0]
    ]
    name = wanted[-1]
    with tempfile.TemporaryDirectory() as folder:
        done = _run(
            "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet", "--dest", folder, "--", name
        )
        found = [path.name for path in Path(folder).iterdir()]
    if done.returncode == 0 and found and not found[0].endswith("-none-any.whl"):
        return f"{name} has native code ({found[0]}): only pure-Python packages can be baked into an image"
    return f"the packages can't be resolved for the image: {' '.join(errors)[-1000:] or said[-1000:]}"


def inspect_wheel(wheel: Path) -> None:
    """Refuse a wheel that is not pure Python, or that would not stay in its folder, before it is unpacked."""
    if wheel.stat().st_size > MAX_WHEEL_BYTES:
        raise PackageError(f"{wheel.name} is {wheel.stat().st_size} bytes long; at most {MAX_WHEEL_BYTES} are accepted")
    import zipfile

    try:
        with zipfile.ZipFile(wheel) as archive:
            infos = archive.infolist()
    except zipfile.BadZipFile as error:
        raise PackageError(f"{wheel.name} is not a wheel: {error}") from None
    if sum(info.file_size for info in infos) > MAX_UNPACKED_BYTES:
        raise PackageError(f"{wheel.name} unpacks to more than {MAX_UNPACKED_BYTES} bytes")
    for info in infos:
        parts = info.filename.split("/")
        if (
            info.filename.startswith("/")
            or ".." in parts
            or "\\" in info.filename
            or (info.external_attr >> 28) == 0o12
        ):
            raise PackageError(f"{wheel.name} holds {info.filename!r}, which would be written outside its folder")
        if info.filename.endswith(NATIVE) or ".so." in info.filename:
            raise PackageError(
                f"{wheel.name.split('-')[0]} has native code ({info.filename}): only pure-Python packages can "
                "be baked into an image"
            )


def _unpack(wheels: list[Path], target: Path) -> list[str]:
    target.mkdir()
    python = _helper_environment()
    done = _run("-c", _HELPER, json.dumps([[str(wheel) for wheel in wheels], str(target)]), python=python)
    if done.returncode:
        raise PackageError(f"the packages can't be unpacked: {done.stderr[-1000:]}")
    names: list[str] = json.loads(done.stdout.splitlines()[-1])
    return sorted(set(names))


def _submodules(folder: Path, modules: list[str]) -> list[str]:
    """Every module inside the packages but tests and entry points."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        if parts[0] in modules and all(
            part.isidentifier() and part not in ("tests", "test", "__main__") for part in parts
        ):
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


def _helper_environment() -> Path:
    """The Python of the environment that holds pyodide-build; made on first use."""
    name = re.sub(r"[^a-z0-9.]+", "-", HELPER_PACKAGE)
    folder = (
        private_folder(cache_folder() / "build-environments")
        / f"{name}-python{sys.version_info[0]}.{sys.version_info[1]}"
    )
    python = folder / "bin" / "python"
    with lock(folder.with_name(f".{folder.name}.lock")):
        done_mark = folder / "complete"
        if not done_mark.exists():
            import venv

            venv.create(folder, with_pip=False, clear=True)  # which would start a Python of its own
            installing = [
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                HELPER_PACKAGE,
                *HELPER_EXTRAS,
            ]
            for step in (["-m", "ensurepip", "--default-pip"], installing):
                done = _run(*step, python=python)
                if done.returncode:
                    raise PackageError(
                        f"{HELPER_PACKAGE}, which unpacks packages, can't be installed: {done.stderr[-1000:]}"
                    )
            done_mark.touch()
    return python


def _run(*arguments: str, python: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A Python with what pip takes from the user's environment, in an empty folder of its own: pip and setuptools
    look around.
    """
    environment = with_safe_path({name: os.environ[name] for name in INDEX_SETTINGS if name in os.environ})
    with tempfile.TemporaryDirectory(prefix="cwd-", dir=scratch_folder()) as folder:
        try:
            return run_python(arguments, env=environment, timeout_s=600, cwd=Path(folder), python=python)
        except subprocess.TimeoutExpired:
            raise PackageError(f"{arguments[1][:100]} did not finish within 600 s") from None
