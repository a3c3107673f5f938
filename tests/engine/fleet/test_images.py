"""Images of a fleet: all machines use the very same one, and believe no row that the fleet's key has not sealed."""

from __future__ import annotations

import json
import logging
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="the fleet's tests need its packages: make test-fleet installs them")

from go_ent.composer.project import trust
from go_ent.engine.fleet.database import Address, Database
from go_ent.engine.fleet.images import PIECE, FleetImages
from go_ent.sandbox import Sandbox
from go_ent.sandbox.images import Image, ensure_image
from go_ent.sandbox.images.ensure import javascript_key
from go_ent.sandbox.images.seals import digest_of, private_folder, seal

Make = Callable[[str, bytes], Image]
KEY = "a" * 32


@pytest.fixture(autouse=True)
def key() -> Iterator[None]:
    trust.share_keys(b"k" * 40)
    yield
    trust.share_keys()


@pytest.fixture
def database(fleet: Address) -> Iterator[Database]:
    opened = Database(fleet)
    yield opened
    opened.close()


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """An image in this machine's cache, which nobody runs: its component is just bytes."""
    monkeypatch.setenv("GO_ENT_CACHE", str(tmp_path / "cache"))

    def image(name: str, content: bytes) -> Image:
        folder = private_folder(private_folder(tmp_path / "cache" / "images") / name)
        (folder / "component.wasm").write_bytes(content)
        (folder / "component.wasm").chmod(0o600)
        digest = digest_of(folder / "component.wasm")
        seal(folder / "component.wasm", {"image": digest})
        record = {"key": KEY, "digest": digest, "packages": [], "memory_bytes": 1, "built": "x", "remade": ""}
        (folder / "image.json").write_text(json.dumps(record))
        (folder / "image.json").chmod(0o600)
        loaded = Image.load(folder)
        assert loaded is not None
        return loaded

    return image


def never() -> Image:
    pytest.fail("this machine built an image of its own")


@pytest.mark.more
def test_a_machine_without_a_cache_runs_the_image_that_another_has_built(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = FleetImages(database).shared(javascript_key(), lambda: ensure_image(language="javascript"))
    pieces = database.ask("select data from $.image_pieces order by number")
    assert b"".join(zlib.decompress(piece) for (piece,) in pieces) == built.component.read_bytes()  # and nothing else
    monkeypatch.setenv("GO_ENT_CACHE", str(tmp_path / "cache"))
    fetched = FleetImages(database).shared(javascript_key(), never)
    assert (fetched.digest, fetched.folder.parent.parent) == (built.digest, tmp_path / "cache")
    assert (fetched.language, fetched.remade, fetched.memory_bytes) == ("javascript", "", built.memory_bytes)
    assert fetched.is_compiled("plain")  # by this machine
    with Sandbox(image=fetched) as box:
        assert box.run_sync("6 * 7", language="javascript").result == 42


def test_the_first_image_of_a_key_is_everybodys(database: Database, make: Make) -> None:
    first, second = make("1" * 32, b"first"), make("2" * 32, b"second")
    assert FleetImages(database).shared(KEY, lambda: first).digest == first.digest
    assert FleetImages(database).shared(KEY, lambda: second).digest == first.digest  # its own build is left alone
    assert database.ask("select digest from $.images") == [(first.digest,)]


def test_who_publishes_at_the_same_time_uses_the_first(database: Database, make: Make) -> None:
    first, second = make("1" * 32, b"first"), make("2" * 32, b"second")

    def slow() -> Image:
        FleetImages(database).shared(KEY, lambda: first)  # another machine, while this one builds
        return second

    assert FleetImages(database).shared(KEY, slow).digest == first.digest


@pytest.mark.parametrize(
    "change", ["seal = repeat('0', 64)", "size = size + 1", f"key = '{'b' * 32}'", "packages = '[\"x\"]'"]
)
def test_a_row_that_is_not_sealed_is_not_used(
    database: Database, make: Make, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = make("1" * 32, b"first"), make("2" * 32, b"second")
    FleetImages(database).shared(KEY, lambda: first)
    database.tell(f"update $.images set {change}")
    with caplog.at_level(logging.WARNING):
        assert FleetImages(database).shared(KEY, lambda: second).digest == second.digest
        shutil.rmtree(first.folder)
        assert FleetImages(database).find(first.digest) is None
    assert "not sealed with the fleet's key" in caplog.text


@pytest.mark.parametrize(
    "piece",
    [b"", b"no zlib", zlib.compress(b"other"), zlib.compress(bytes(PIECE + 1)), zlib.compress(b"f" * 5)],
    ids=["empty", "garbage", "other", "bomb", "same length"],
)
def test_a_damaged_piece_is_not_used(database: Database, make: Make, piece: bytes) -> None:
    first, second = make("1" * 32, b"first"), make("2" * 32, b"second")
    FleetImages(database).shared(KEY, lambda: first)
    shutil.rmtree(first.folder)  # another machine
    database.tell("update $.image_pieces set data = %s", (piece,))
    assert FleetImages(database).find(first.digest) is None
    assert FleetImages(database).shared(KEY, lambda: second).digest == second.digest


def test_who_has_no_key_uses_its_own(database: Database, make: Make) -> None:
    first, second = make("1" * 32, b"first"), make("2" * 32, b"second")
    FleetImages(database).shared(KEY, lambda: first)
    trust.share_keys()
    assert FleetImages(database).shared(KEY, lambda: second) is second
    assert database.ask("select count(*) from $.images") == [(1,)]


def test_an_image_outlives_the_key_that_it_was_published_with(database: Database, make: Make) -> None:
    first = make("1" * 32, b"first")
    FleetImages(database).shared(KEY, lambda: first)
    trust.share_keys(b"n" * 40, b"k" * 40)
    assert FleetImages(database).shared(KEY, never).digest == first.digest
    trust.share_keys(b"n" * 40)
    assert FleetImages(database).shared(KEY, never).digest == first.digest


def test_images_that_executions_need_are_kept(database: Database, make: Make) -> None:
    for name in ("1", "2", "3"):
        one = make(name * 32, name.encode())
        FleetImages(database).shared(name * 32, lambda one=one: one)  # type: ignore[misc]
    digests = {name: make(name * 32, name.encode()).digest for name in ("1", "2", "3")}
    database.tell("insert into $.slots (id) values ('e')")
    database.tell(
        "insert into $.executions values "
        "('e', null, 'code', 'interrupted', '', '', 0, 0, null, null, 0, %s, true, '', 1)",
        (digests["1"],),
    )
    assert FleetImages(database).prune() == ([], 0)  # all were used just now
    database.tell("update $.images set used = now() - interval '40 days' where digest <> %s", (digests["3"],))
    assert FleetImages(database).prune() == ([digests["2"]], 1)
    database.tell("update $.executions set resumable = false")
    assert FleetImages(database).prune()[0] == [digests["1"]]
    assert database.ask("select count(*) from $.image_pieces") == [(1,)]
