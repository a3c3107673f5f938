"""A project's own image: the standard one with the pure-Python packages that its config names baked in."""

from __future__ import annotations

from pathlib import Path

from sandbox.errors import PackageError
from sandbox.images.cache import Image, Progress, images_folder
from sandbox.images.ensure import build_image, ensure_image, source_key
from sandbox.images.packages import bake, check_requirements
from sandbox.layers import CONFIG, UnreadableSettings, dotted, read_layers

SECTION = "image"


def project_packages(folder: Path) -> tuple[str, ...]:
    """The requirements under `[image] packages` of the nearest `.go-ent/config.toml` or the environment, sorted."""
    path = next((at / CONFIG for at in (folder, *folder.parents) if (at / CONFIG).is_file()), folder / CONFIG)
    try:
        layers = read_layers(path)
    except UnreadableSettings as error:
        raise PackageError(str(error)) from None
    section = layers.table.get(SECTION, {})
    unknown = [name for name in section if name != "packages"] if isinstance(section, dict) else []
    if unknown:
        raise PackageError(
            f"{layers.where((SECTION, unknown[0]))}: there is no setting {dotted((SECTION, unknown[0]))}; there is image.packages"
        )
    packages = section.get("packages", []) if isinstance(section, dict) else None
    where = layers.where((SECTION, "packages"))
    if not isinstance(packages, list) or not all(isinstance(item, str) for item in packages):
        raise PackageError(f'{where}: image.packages must be a list of requirements like ["attrs==25.3.0"]')
    return tuple(sorted(check_requirements(packages, where)))


def wanted_key(folder: Path) -> str:
    """The key of the image that *folder* uses."""
    return source_key("\n".join(project_packages(folder)))


def ready_image(folder: Path) -> Image | None:
    """The image for code of *folder*, if it is in the cache."""
    return Image.load(images_folder() / wanted_key(folder))


def project_image(folder: Path, progress: Progress | None = None) -> Image:
    """The image for code of *folder*: from the cache, or built now."""
    packages = project_packages(folder)
    if not packages:
        return ensure_image(progress)
    key = source_key("\n".join(packages))
    with bake(packages, key) as baked:
        return build_image(key, packages, baked, progress)
