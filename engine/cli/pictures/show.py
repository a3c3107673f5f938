"""A run's pictures: shown where the terminal can, saved to a new folder where it can't. In a pipe they are neither."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from go_ent.engine.cli.inputs.files import save_files
from go_ent.engine.cli.pictures.protocols import KINDS, iterm2, kitty
from go_ent.engine.cli.pictures.sixel import sixel
from go_ent.engine.cli.pictures.sizes import size_of
from go_ent.engine.cli.pictures.support import Area, Way, area_of, way_of
from go_ent.engine.cli.terminal.output import aside, is_terminal, say, short
from go_ent.sandbox.media.kinds import IMAGES, Media, mime_type_of

MOST_SHOWN = 4
MOST_BYTES = 4 << 20  # of one
MOST_SAVED = 20
WAYS: dict[Way, Callable[[bytes, tuple[int, int], Area], Iterator[str]]] = {
    "kitty": kitty,
    "iterm2": iterm2,
    "sixel": sixel,
}


def show_pictures(media: Iterable[Media], *, saved: bool = False) -> None:
    """Show the pictures among *media*; those that can't be shown are saved, unless they are *saved* already.

    What is a picture, its bytes say, not its name. A name is a guest's: it is shown plain, and a file of it stays in
    the new folder.
    """
    pictures = [one for one in media if mime_type_of(one.data) in IMAGES]
    if not pictures or not is_terminal(sys.stdout):
        return
    way = way_of(sys.stdout)
    shown = {one.name for one in pictures[:MOST_SHOWN] if way is not None and _show(one, way)}
    rest = {one.name: one.data for one in pictures if one.name not in shown}
    if not rest or saved:
        return
    try:
        paths = save_files(Path(tempfile.mkdtemp(prefix="go-ent-")), dict(list(rest.items())[:MOST_SAVED]))
    except OSError as error:
        say(f"the pictures can't be saved: {error.strerror or error}", err=True)
        return
    for path in paths:
        say(f"picture saved: {path}", err=True)
    if len(rest) > MOST_SAVED:
        say(f"and {len(rest) - MOST_SAVED} more pictures: --out DIR saves all files", err=True)


def _show(picture: Media, way: Way) -> bool:
    kind = mime_type_of(picture.data)
    size = size_of(picture.data, kind)
    if size is None or kind not in KINDS[way] or len(picture.data) > MOST_BYTES:
        return False
    drawn = "".join(WAYS[way](picture.data, size, area_of(sys.stdout)))
    if not drawn:
        return False
    say(f"{short(picture.name)} ({size[0]} x {size[1]})", style="dim")
    with aside():
        sys.stdout.write(f"{drawn}\n")
        sys.stdout.flush()
    return True
