"""A project's own image: the standard one with the pure-Python packages that its config names baked in."""

from __future__ import annotations

import tomllib
from pathlib import Path

from sandbox.errors import PackageError
from sandbox.images.cache import Image, Progress
from sandbox.images.ensure import build_image, ensure_image, source_key
from sandbox.images.packages import bake, check_requirements

CONFIG = Path(".go-ent") / "config.toml"


def project_packages(folder: Path) -> tuple[str, ...]:
    """The requirements under `[image] packages` of the nearest `.go-ent/config.toml`, sorted; none without one."""
    path = next((at / CONFIG for at in (folder, *folder.parents) if (at / CONFIG).is_file()), None)
    if path is None:
        return ()
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PackageError(f"{path} is not valid TOML: {error}") from None
    section = config.get("image", {})
    unknown = [f"image.{name}" for name in section if name != "packages"] if isinstance(section, dict) else []
    if unknown:
        raise PackageError(f"{path}: there is no setting {', '.join(unknown)}; there is image.packages")
    packages = section.get("packages", []) if isinstance(section, dict) else None
    if not isinstance(packages, list) or not all(isinstance(item, str) for item in packages):
        raise PackageError(f'{path}: [image] packages must be a list of requirements like ["attrs==25.3.0"]')
    return tuple(sorted(check_requirements(packages, path)))


def wanted_key(folder: Path) -> str:
    """The key of the image that *folder* uses."""
    return source_key("\n".join(project_packages(folder)))


def project_image(folder: Path, progress: Progress | None = None) -> Image:
    """The image for code of *folder*: from the cache, or built now."""
    packages = project_packages(folder)
    if not packages:
        return ensure_image(progress)
    key = source_key("\n".join(packages))
    with bake(packages, key) as baked:
        return build_image(key, packages, baked, progress)
