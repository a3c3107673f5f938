"""The images of a fleet: the first machine that builds one publishes it, and all others use that very one.

Two builds of one source differ, and a recorded run goes on only with the image that it was begun with. So the component
travels through Postgres, in pieces. The database is not believed: a component counts only with a seal of the fleet's
key and the digest that the seal names, and it is WebAssembly, which each machine proves and compiles for itself.
Compiled code is native code, and never travels.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import tempfile
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

from psycopg import Connection

from go_ent.composer.project.trust import has_shared_key, is_sealed, seal
from go_ent.dataclass import dataclass
from go_ent.engine.fleet.database import Away, Database
from go_ent.sandbox.errors import ImageError
from go_ent.sandbox.images import Image, adopt_image, find_image
from go_ent.sandbox.images.cache import KEY, scratch_folder
from go_ent.sandbox.images.ensure import Origin

log = logging.getLogger("go_ent.engine.fleet")
PIECE = 1 << 20
MOST_BYTES = 512 << 20
MOST_OF_A_KEY = 8  # that are looked at
MOST_TEXT = 4096
KEPT_DAYS = 30  # that an image is kept since it was last used
DIGEST = re.compile(r"[0-9a-f]{64}")
ROW = "digest, key, language, packages, size, seal"
OF_KEY = f"select {ROW} from $.images where key = %s and octet_length(packages) <= %s order by made, digest limit %s"  # noqa: S608
OF_DIGEST = f"select {ROW} from $.images where digest = %s and octet_length(packages) <= %s limit %s"  # noqa: S608
PIECE_OF = "select data from $.image_pieces where digest = %s and number = %s and octet_length(data) <= %s"
USED = (
    "update $.images set used = now(), seal = %s where digest = %s and (used < now() - interval '1 day' or seal <> %s)"
)
# What nobody has used for long, and no execution that can be resumed may need: one that names no image may need any.
PRUNE = """
delete from $.images i where i.used < now() - %s * interval '1 day' and not exists (
  select from $.executions e where e.resumable and (e.image = i.digest or (e.image = '' and
    to_timestamp(e.updated) >= i.made)))
returning i.digest, i.size
"""


@dataclass(frozen=True, slots=True)
class Published:
    """An image as the database has it, whose seal is right."""

    digest: str
    origin: Origin
    size: int


class FleetImages:
    """`Images` of a fleet. Thread-safe; the methods block."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()

    def shared(self, key: str, own: Callable[[], Image]) -> Image:
        """The fleet's image of that key. Who has no key of the fleet can tell nobody's image from another's, and uses
        its own; so does who can't reach the server, for as long as that is so.
        """
        if not has_shared_key():
            return own()
        with self._lock:
            try:
                for published in self._looked_up(OF_KEY, key):
                    if published.origin.key == key and (image := self._here(published)) is not None:
                        return image
                image = own()
                self._publish(key, image)
                first = next(iter(self._looked_up(OF_KEY, key)), None)  # another machine may have been faster
                return image if first is None else self._here(first) or image
            except Away as error:
                log.warning("the fleet's image can't be looked up, and this machine's own is used: %s", error)
                return own()

    def find(self, digest: str) -> Image | None:
        image = find_image(digest)
        if image is not None or not has_shared_key() or not DIGEST.fullmatch(digest):
            return image
        try:
            return next((self._here(one) for one in self._looked_up(OF_DIGEST, digest)), None)
        except Away as error:
            log.warning("the fleet's images can't be looked up: %s", error)
            return None

    def _looked_up(self, query: str, name: str) -> list[Published]:
        """Those that somebody with the fleet's key has published, the first that was first."""
        found = []
        for row in self._database.ask(query, (name, MOST_TEXT, MOST_OF_A_KEY)):
            digest, key, language, packages, size, mark = row
            if not is_sealed(_text(digest, key, language, packages, size), str(mark)[:200]):
                log.warning("an image %.16s is not sealed with the fleet's key: it is not used", digest)
                continue
            if DIGEST.fullmatch(digest) and KEY.fullmatch(key) and 0 < size <= MOST_BYTES:
                found.append(Published(digest, Origin(key, tuple(json.loads(packages)), language), size))
        return found

    def _here(self, published: Published) -> Image | None:
        """The image in this machine's cache, fetched if it is not there; None if it is damaged."""
        image = find_image(published.digest)
        try:
            image = image or self._fetched(published)
        except ImageError as error:
            log.warning("the fleet's image %s can't be used: %s", published.digest[:16], error)
            return None
        mark = seal(_text_of(published))  # with the key that is used now: an older one may be dropped soon
        self._database.tell(USED, (mark, published.digest, mark))
        return image

    def _fetched(self, published: Published) -> Image:
        log.info("fetching image %s from the fleet", published.digest)
        with tempfile.TemporaryDirectory(prefix="fetched-", dir=scratch_folder()) as folder:
            component = Path(folder) / "component.wasm"
            with open(component, "xb") as file:
                self._write(published, file)
            return adopt_image(component, published.digest, published.origin)

    def _write(self, published: Published, file: IO[bytes]) -> None:
        state, left, number = hashlib.sha256(), published.size, 0
        while left > 0:
            rows = self._database.ask(PIECE_OF, (published.digest, number, PIECE + 1024))
            piece = _unpacked(bytes(rows[0][0])) if rows else b""
            if len(piece) != min(PIECE, left):
                raise ImageError(f"piece {number} of it is missing or damaged")
            state.update(piece)
            file.write(piece)
            left -= len(piece)
            number += 1
        if state.hexdigest() != published.digest:
            raise ImageError("its content is not what its digest says")

    def _publish(self, key: str, image: Image) -> None:
        """Give it to the fleet, unless one of that key is there by now that can be used. One that is damaged is
        replaced by the same image, or stays beside another.
        """
        size = image.component.stat().st_size
        if size > MOST_BYTES:
            raise ImageError(f"an image of {size} bytes is too large for a fleet: at most {MOST_BYTES}")
        packages = json.dumps(list(image.packages))
        known = {one.digest for one in self._looked_up(OF_KEY, key)}

        def publish(connection: Connection) -> None:
            with connection.transaction(), open(image.component, "rb") as file:
                name = f"{self._database.address.namespace} image {key}"
                connection.execute(b"select pg_advisory_xact_lock(hashtextextended(%s, 3))", (name,))
                if any(one.digest not in known for one in self._looked_up(OF_KEY, key)):
                    return
                gone = self._database.query("delete from $.images where digest = %s")
                connection.execute(gone.encode(), (image.digest,))
                row = (image.digest, key, image.language, packages, size)
                add = self._database.query(f"insert into $.images ({ROW}) values (%s, %s, %s, %s, %s, %s)")  # noqa: S608
                connection.execute(add.encode(), (*row, seal(_text(*row))))
                insert = self._database.query("insert into $.image_pieces values (%s, %s, %s)").encode()
                number = 0
                while piece := file.read(PIECE):
                    connection.execute(insert, (image.digest, number, zlib.compress(piece, 1)))
                    number += 1

        self._database.run(publish)
        log.info("published image %s", image.digest)

    def prune(self) -> tuple[list[str], int]:
        """Remove from the database what nobody has used for long and no execution needs; what, and how many bytes."""
        rows = self._database.ask(PRUNE, (KEPT_DAYS,))
        return [digest for digest, _ in rows], sum(size for _, size in rows)

    def listed(self) -> list[tuple[str, str, int]]:
        """Digest, language and size of those there are, the newest first."""
        query = "select left(digest, 64), left(language, 20), size from $.images order by made desc limit 100"
        return [(digest, language, size) for digest, language, size in self._database.ask(query)]


def _text(digest: str, key: str, language: str, packages: str, size: int) -> str:
    """What is sealed."""
    return json.dumps(["image", digest, key, language, packages, size])


def _text_of(published: Published) -> str:
    origin = published.origin
    return _text(published.digest, origin.key, origin.language, json.dumps(list(origin.packages)), published.size)


def _unpacked(data: bytes) -> bytes:
    """A piece; what would be longer is damaged."""
    inflater = zlib.decompressobj()
    try:
        piece = inflater.decompress(data, PIECE + 1)
    except zlib.error:
        return b""
    return piece if len(piece) <= PIECE else b""
