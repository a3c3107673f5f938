"""`go-ent image`: list, look at, build and prune guest images."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sandbox.images import Image, cache_folder, list_images, projects_of, prune_images
from sandbox.images.project import project_image, project_packages, wanted_key

Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")]


def _record(image: Image) -> dict[str, object]:
    return {
        "digest": image.digest,
        "key": image.key,
        "packages": list(image.packages),
        "memory_bytes": image.memory_bytes,
        "built": image.built,
        "current": image.key == wanted_key(Path.cwd()),
        "component": str(image.component),
        "component_bytes": image.component.stat().st_size,
    }


def list_command(*, json_: Json = False) -> int:
    """The images in the cache, newest first; * marks the one that this folder uses."""
    images = [_record(image) for image in list_images()]
    if json_:
        print(json.dumps(images, indent=1))
        return 0
    for image in images:
        packages = (
            ", ".join(map(str, image["packages"])) if isinstance(image["packages"], list) and image["packages"] else "standard library only"
        )
        print(f"{'*' if image['current'] else ' '} {str(image['digest'])[:12]}  {image['built']}  {packages}")
    if not images:
        print("no image yet: the first run builds one, or `go-ent image build` does", file=sys.stderr)
    return 0


def info_command(digest: str | None = None, /, *, json_: Json = False) -> int:
    """One image: the one that this folder uses, or the one whose digest starts with *digest*."""
    wanted = wanted_key(Path.cwd())
    found = [image for image in list_images() if (image.digest.startswith(digest) if digest else image.key == wanted)]
    if len(found) != 1:
        what = "this folder's image is not built yet: run `go-ent image build`"
        if digest:
            what = f"{len(found) or 'no'} images start with {digest!r}; see `go-ent image list`"
        print(f"go-ent: {what}", file=sys.stderr)
        return 1
    record = _record(found[0])
    if json_:
        print(json.dumps(record, indent=1))
    else:
        for name, value in record.items():
            print(f"{name:16} {value}")
    return 0


def build_command(*, json_: Json = False) -> int:
    """Build this folder's image now, with the packages that `.go-ent/config.toml` names under [image]."""
    image = project_image(Path.cwd())
    image.artefact("plain")
    if json_:
        print(json.dumps(_record(image), indent=1))
    else:
        packages = ", ".join(project_packages(Path.cwd())) or "standard library only"
        print(f"{image.digest[:12]}  {packages}")
    return 0


def prune_command(
    *,
    all_: Annotated[bool, Parameter(name="--all", negative="", help="Remove this folder's image and the standard one too.")] = False,
    resumable: Annotated[bool, Parameter(negative="", help="Remove also those that executions need to be resumed.")] = False,
) -> int:
    """Remove the images that neither this folder nor an unconfigured one uses, and that no execution needs to be resumed."""
    from sandbox.images.ensure import source_key

    needed = set() if resumable else {image.key for image in list_images() if _is_needed(image)}
    used = set() if all_ else {source_key(), wanted_key(Path.cwd())}
    removed, freed = prune_images(used | needed)
    print(f"removed {len(removed)} images, {freed / 1e6:.0f} MB, from {cache_folder()}")
    if needed - used:
        print(f"kept {len(needed - used)} that executions need to be resumed; --resumable removes them too", file=sys.stderr)
    return 0


def _is_needed(image: Image) -> bool:
    """Whether an execution of any project that has used it can be resumed. Where that can't be known, it is."""
    from composer.folders import STATE
    from engine.executions.index import Index

    projects = projects_of(image)
    if projects is None:
        return True
    for project in projects:
        folder = project / STATE / "executions"
        try:
            folder.lstat()
        except (FileNotFoundError, NotADirectoryError):  # the project is gone, or its executions are
            continue
        except OSError:
            return True
        index = Index(folder)
        try:
            if not os.access(folder, os.R_OK | os.X_OK) or image.digest in index.needs_image():
                return True
        finally:
            index.close()
    return False
