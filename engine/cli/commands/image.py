"""`go-ent image`: list, look at, build and prune guest images."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from typing import Annotated

from cyclopts import Parameter

from go_ent.composer.errors import ConfigError
from go_ent.composer.project.files import find_project
from go_ent.composer.project.image import project_packages, wanted_key
from go_ent.composer.project.trust import is_trusted
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.terminal.output import is_rich, say, show_json
from go_ent.engine.cli.terminal.progress import QuietFlag, image_ready
from go_ent.engine.cli.terminal.tables import table
from go_ent.sandbox.images import Image, cache_folder, list_images, projects_of, prune_images

Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")]


def _record(image: Image) -> dict[str, object]:
    return {
        "digest": image.digest,
        "key": image.key,
        "packages": list(image.packages),
        "language": image.language,
        "memory_bytes": image.memory_bytes,
        "built": image.built,
        "current": image.key == _wanted(),
        "component": str(image.component),
        "component_bytes": image.component.stat().st_size,
    }


def _wanted() -> str:
    """The key of the image that this folder uses."""
    project = find_project()
    return wanted_key(project, trusted=is_trusted(project))


def list_command(*, json_: Json = False) -> int:
    """The images in the cache, newest first; * marks the one that this folder uses."""
    images = [_record(image) for image in list_images()]
    if json_:
        show_json(images)
        return 0
    rows = []
    for image in images:
        found = image["packages"]
        packages = ", ".join(map(str, found)) if isinstance(found, list) and found else "standard library only"
        if image["language"] != "python":
            packages = str(image["language"])
        rows.append(["*" if image["current"] else " ", str(image["digest"])[:12], str(image["built"]), packages])
    if is_rich(sys.stdout) and rows:
        table([[*row[:2], _local(row[2]), row[3]] for row in rows], ["", "digest", "built", "packages"])
    elif rows:
        say("\n".join(f"{mark} {digest}  {built}  {packages}" for mark, digest, built, packages in rows))
    else:
        say("no image yet: the first run builds one, or `go-ent image build` does", err=True)
    return 0


def _local(built: str) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", datetime.fromisoformat(built).astimezone().timetuple())
    except ValueError:
        return built


def info_command(
    digest: Annotated[str | None, Parameter(help="The start of its digest; by default this folder's image.")] = None,
    /,
    *,
    json_: Json = False,
) -> int:
    """One image: the one that this folder uses, or the one whose digest starts with *digest*."""
    wanted = _wanted()
    found = [image for image in list_images() if (image.digest.startswith(digest) if digest else image.key == wanted)]
    if len(found) != 1:
        if digest:
            which = f"{len(found)} images start" if found else "no image starts"
            raise UsageError(f"{which} with {digest!r}; see `go-ent image list`")
        say("go-ent: this folder's image is not built yet: run `go-ent image build`", err=True)
        return 1
    record = _record(found[0])
    if json_:
        show_json(record)
    else:
        for name, value in record.items():
            text = ", ".join(map(str, value)) or "standard library only" if isinstance(value, list) else value
            say(f"{name:16} {text}")
    return 0


def build_command(*, quiet: QuietFlag = False, json_: Json = False) -> int:
    """Build this folder's image now, with the packages that `.go-ent/config.toml` names under [image].

    Packages are downloaded for a project that is trusted.
    """
    project = find_project()
    if named := set(project_packages(project)) - set(project_packages(project, trusted=is_trusted(project))):
        raise UsageError(
            f"nobody has trusted {project}, so {', '.join(sorted(named))} can't be downloaded: run go-ent trust there"
        )
    image = image_ready(project, quiet=quiet or json_, kinds=("plain",))
    if json_:
        show_json(_record(image))
    else:
        packages = ", ".join(image.packages) or "standard library only"
        say(f"{image.digest[:12]}  {packages}")
    return 0


def prune_command(
    *,
    all_: Annotated[
        bool, Parameter(name="--all", negative="", help="Also remove this folder's image and the standard one.")
    ] = False,
    resumable: Annotated[
        bool, Parameter(negative="", help="Also remove images that resumable executions need.")
    ] = False,
    json_: Json = False,
) -> int:
    """Remove the images that neither this folder nor an unconfigured one uses, and that no execution needs to be
    resumed.
    """
    from go_ent.sandbox.images.ensure import javascript_key, source_key

    needed = set() if resumable else {image.folder.name for image in list_images() if _is_needed(image)}
    used = set() if all_ else {source_key(), javascript_key(), _wanted()}
    removed, freed = prune_images(used | needed)
    if json_:
        show_json(
            {"removed": removed, "bytes": freed, "kept_resumable": len(needed - used), "cache": str(cache_folder())}
        )
        return 0
    say(f"removed {len(removed)} image{'' if len(removed) == 1 else 's'}, {freed / 1e6:.0f} MB, from {cache_folder()}")
    if needed - used:
        say(f"kept {len(needed - used)} that executions need to be resumed; --resumable removes them too", err=True)
    return 0


def _is_needed(image: Image) -> bool:
    """Whether an execution of any project that has used it can be resumed. Where that can't be known, it is."""
    from go_ent.engine.core.errors import EngineError
    from go_ent.engine.storages import open_storages

    projects = projects_of(image)
    if projects is None:
        return True
    for project in projects:
        try:
            storage = open_storages(project).executions
        except (ConfigError, EngineError):
            return True
        try:
            if storage.needs_image(image.digest):
                return True
        finally:
            storage.close()
    return False
