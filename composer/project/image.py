"""A project's own image: the standard one with the pure-Python packages that its config names baked in.

To bake packages is to download and to start pip. What a folder names is baked only if the folder is trusted; what this
user's own environment names always is.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from go_ent.composer.project.layers import CONFIG, UnreadableSettings, dotted, read_layers
from go_ent.sandbox.errors import PackageError
from go_ent.sandbox.images.cache import BuildProgress, Image, find_image, images_folder
from go_ent.sandbox.images.ensure import build_image, ensure_image, javascript_key, source_key
from go_ent.sandbox.images.packages import bake, check_requirements

SECTION = "image"


class Images(Protocol):
    """Where a project's images come from. The methods may take long."""

    def shared(self, key: str, own: Callable[[], Image]) -> Image:
        """The image of that key that all machines of the project use; *own* finds or builds one here."""

    def find(self, digest: str) -> Image | None:
        """The image of that digest, which something was begun with."""


class OwnImages:
    """`Images` of a project that is on one machine: its cache's."""

    def shared(self, key: str, own: Callable[[], Image]) -> Image:
        del key
        return own()

    def find(self, digest: str) -> Image | None:
        return find_image(digest)


def project_packages(folder: Path, *, trusted: bool = True) -> tuple[str, ...]:
    """The requirements under `[image] packages` of the project that *folder* is in, or of the environment, sorted.

    Of a folder that is not *trusted*, those of the environment alone.
    """
    project = next((at for at in (folder, *folder.parents) if (at / CONFIG).parent.is_dir()), folder)
    try:
        layers = read_layers(project / CONFIG)
    except UnreadableSettings as error:
        raise PackageError(str(error)) from None
    section = layers.table.get(SECTION, {})
    unknown = [name for name in section if name != "packages"] if isinstance(section, dict) else []
    if unknown:
        raise PackageError(
            f"{layers.where((SECTION, unknown[0]))}: there is no setting {dotted((SECTION, unknown[0]))}; "
            "there is image.packages"
        )
    packages = section.get("packages", []) if isinstance(section, dict) else None
    where = layers.where((SECTION, "packages"))
    if not isinstance(packages, list) or not all(isinstance(item, str) for item in packages):
        raise PackageError(f'{where}: image.packages must be a list of requirements like ["attrs==25.3.0"]')
    checked = tuple(sorted(check_requirements(packages, where)))
    return checked if trusted or layers.variable((SECTION, "packages")) else ()


def wanted_key(folder: Path, *, trusted: bool) -> str:
    """The key of the image that *folder* uses."""
    return source_key("\n".join(project_packages(folder, trusted=trusted)))


def ready_image(folder: Path, *, trusted: bool) -> Image | None:
    """The image for code of *folder*, if it is in the cache."""
    return Image.load(images_folder() / wanted_key(folder, trusted=trusted))


def project_image(
    folder: Path, progress: BuildProgress | None = None, *, trusted: bool = False, images: Images | None = None
) -> Image:
    """The image for code of *folder*: from the cache, or built now. Without the folder's packages, if it is not
    *trusted*.
    """
    packages = project_packages(folder, trusted=trusted)
    key = source_key("\n".join(packages))

    def own() -> Image:
        if not packages:
            return ensure_image(progress)
        with bake(packages, key) as baked:
            return build_image(key, packages, baked, progress)

    return own() if images is None else images.shared(key, own)


def language_image(images: Images, language: str) -> Image:
    """The image of another language than Python."""
    return images.shared(javascript_key(), lambda: ensure_image(language=language))
