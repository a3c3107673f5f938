"""Where a child process finds this package and wasmtime; it gets nothing else of this environment."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from sandbox.errors import ImageError


def package_folder(name: str) -> Path:
    """The folder of an installed package, without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ImageError(f"the package {name} is not installed; install go-ent with its dependencies")
    return Path(spec.submodule_search_locations[0])


def worker_path() -> list[str]:
    return [str(Path(__file__).parent.parent), str(package_folder("wasmtime").parent)]


def installed_version(name: str) -> str:
    """A package's version, read off its metadata folder: `importlib.metadata` takes longer than a whole run."""
    base = package_folder(name.replace("-", "_"))
    for entry in base.parent.glob("*.dist-info"):
        found, _, version = entry.name.removesuffix(".dist-info").partition("-")
        if found.lower() == name.replace("-", "_").lower():
            return version
    import importlib.metadata

    return importlib.metadata.version(name)
