"""Where things are: the user's own folders; and this package and wasmtime, for a child that gets nothing else of
this environment.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from pathlib import Path

from go_ent.sandbox.errors import ImageError, SandboxError


def users_folder(own: str, base: str, usual: str) -> Path:
    """A folder of the user's: the one that the variable *own* names, else go-ent's in *base*, which is *usual* in the
    home.

    What is in it is trusted, so it is never a folder that depends on where somebody happens to be.
    """
    chosen = os.environ.get(own, "")
    if chosen and not os.path.isabs(chosen):
        raise SandboxError(
            f"{own} is {chosen!r}, which is another folder in each place: set it to a whole path, beginning with /"
        )
    home = os.environ.get("HOME") or os.path.expanduser("~")
    return _folder(chosen, os.environ.get(base, ""), home, usual)


@functools.lru_cache(maxsize=16)
def _folder(chosen: str, given: str, home: str, usual: str) -> Path:
    """It is asked for with every run, and a path takes longer to be put together than to be used."""
    if chosen:
        return Path(chosen)
    return (Path(given) if os.path.isabs(given) else Path(home) / usual) / "go-ent"


def package_folder(name: str) -> Path:
    """The folder of an installed package, without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ImageError(f"the package {name} is not installed; install go-ent with its dependencies")
    return Path(spec.submodule_search_locations[0])


def worker_path() -> list[str]:
    return [str(Path(__file__).parents[3]), str(package_folder("wasmtime").parent)]


def installed_version(name: str) -> str:
    """A package's version, read off its metadata folder: `importlib.metadata` takes longer than a whole run."""
    package = name.replace("-", "_")
    beside = str(package_folder(package).parent)
    for folder in (beside, *filter(os.path.isabs, sys.path)):  # a checkout's is not beside its package
        if (version := _versions(folder).get(package.lower())) is not None:
            return version
    import importlib.metadata

    return importlib.metadata.version(name)


@functools.cache
def _versions(folder: str) -> dict[str, str]:
    """Of what is installed in *folder*, by name."""
    try:
        entries = os.listdir(folder)
    except OSError:
        return {}
    names = [entry.removesuffix(".dist-info").partition("-") for entry in entries if entry.endswith(".dist-info")]
    return {name.lower(): version for name, _, version in names}
