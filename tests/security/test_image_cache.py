"""The image cache: what is loaded from there runs, so what somebody else put or changed there is not loaded."""

from __future__ import annotations

import json
import logging
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from go_ent.files import write_whole
from go_ent.sandbox import Image, ImageError
from go_ent.sandbox.images import cache_folder
from go_ent.sandbox.images.cache import images_folder, target
from go_ent.sandbox.images.seals import (
    digest_of,
    fresh_folder,
    lock,
    private_folder,
    read_record,
    seal,
    sealed,
)
from tests.security.corpus import attack

NOBODY = 65534
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can make files of another user")


EMPTY = b"\0asm\x0d\0\1\0"  # the least that is a component: compiled in no time, by the real compiler
KEY = "0" * 32


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with an image in it, compiled."""
    cache = tmp_path_factory.mktemp("pristine") / "cache"
    folder = fresh_folder(private_folder(cache / "images") / KEY)
    component = folder / "component.wasm"
    write_whole(component, EMPTY, mode=0o600)
    digest = digest_of(component)
    seal(component, {"image": digest})
    built = "2026-01-01T00:00:00+00:00"
    record = {"key": KEY, "digest": digest, "packages": [], "memory_bytes": 0, "built": built, "remade": ""}
    write_whole(folder / "image.json", json.dumps(record).encode(), mode=0o600)
    image = Image.load(folder)
    assert image is not None
    image.artefact("plain")
    return cache


@pytest.fixture
def image(pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Image:
    """That image, in a cache of the test's own."""
    cache = tmp_path / "cache"
    shutil.copytree(pristine, cache)
    monkeypatch.setenv("GO_ENT_CACHE", str(cache))
    image = Image.load(cache_folder() / "images" / KEY)
    assert image is not None
    assert sealed(artefact_of(image), extra(image))
    return image


def extra(image: Image) -> dict[str, str]:
    return {"image": image.digest, "kind": "plain", "target": target()}


def made_again(image: Image, pristine: Path) -> bool:
    """Ask for the artefact: it is what the compiler makes, in a file of its own that nobody else has touched."""
    artefact = image.artefact("plain")
    assert artefact == artefact_of(image)
    assert artefact.read_bytes() == (pristine / artefact.relative_to(cache_folder())).read_bytes()
    status = artefact.lstat()
    assert (stat.S_ISREG(status.st_mode), status.st_uid, status.st_mode & 0o777) == (True, os.getuid(), 0o600)
    return sealed(artefact, extra(image))


def artefact_of(image: Image) -> Path:
    return image.folder.parent.parent / "compiled" / image.digest / f"plain-{target()}.cwasm"


def forge(path: Path) -> None:
    """Other content of the same length, at the same time as far as a file says."""
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_by_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def seal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


TAMPERED: dict[str, tuple[Callable[[Path], object], str]] = {
    "one bit of the artefact flipped, its times set back": (forge, "its content has changed"),
    "an artefact cut short": (lambda path: os.truncate(path, 10), "bytes instead of"),
    "an artefact that its group may write to": (lambda path: path.chmod(0o660), "writable by others"),
    "an artefact that all may write to": (lambda path: path.chmod(0o606), "writable by others"),
    "a link in place of the artefact": (replace_by_link, "Too many levels of symbolic links"),
    "a pipe in place of the artefact": (replace_by_pipe, "it is not a file"),
    "no seal": (lambda path: seal_of(path).unlink(), "No such file"),
    "a seal that others may write to": (lambda path: seal_of(path).chmod(0o666), "writable by others"),
    "a link in place of the seal": (lambda path: replace_by_link(seal_of(path)), "Too many levels of symbolic links"),
    "a seal of another artefact": (lambda path: seal(path, {"image": "0" * 64}), "made for something else"),
    "a seal that is no object": (lambda path: seal_of(path).write_text("[]"), "has no attribute"),
    "a seal that nests without end": (lambda path: seal_of(path).write_text("[" * 100_000), "recursion"),
    "a seal without end": (lambda path: seal_of(path).write_bytes(b" " * (2 << 20)), "more than"),
}


class TestAnArtefact:
    @pytest.mark.parametrize("name", [pytest.param(name, marks=attack("worker", name)) for name in TAMPERED])
    def test_that_was_tampered_with_is_made_again(
        self, image: Image, pristine: Path, name: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        tamper, reason = TAMPERED[name]
        tamper(artefact_of(image))
        with caplog.at_level(logging.WARNING, "go_ent.sandbox.images"):
            assert made_again(image, pristine)
        assert reason in caplog.text

    def test_that_was_not_is_taken_as_it_is(self, image: Image) -> None:
        before = artefact_of(image).stat()
        after = image.artefact("plain").stat()
        assert (after.st_ino, after.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)

    def test_is_read_whole_if_it_may_have_changed(self, image: Image) -> None:
        """What a file says of itself can be set back, but for the time of that."""
        artefact, seal_file = artefact_of(image), seal_of(artefact_of(image))
        written = seal_file.stat().st_ino
        assert sealed(artefact, extra(image))
        assert seal_file.stat().st_ino == written
        os.utime(artefact, ns=(1, artefact.stat().st_mtime_ns))
        assert sealed(artefact, extra(image))
        assert seal_file.stat().st_ino != written  # it was read, found to be the same, and sealed anew
        assert json.loads(seal_file.read_bytes())["ctime_ns"] == artefact.stat().st_ctime_ns

    @as_root
    @pytest.mark.parametrize("which", ["artefact", "seal"])
    def test_of_another_user_is_made_again(
        self, image: Image, pristine: Path, which: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        artefact = artefact_of(image)
        os.chown(artefact if which == "artefact" else seal_of(artefact), NOBODY, NOBODY)
        assert made_again(image, pristine)
        assert "it belongs to another user" in caplog.text


class TestAFolder:
    @attack("worker", "a folder of artefacts that others may write to")
    def test_that_others_may_write_to_is_emptied(
        self, image: Image, pristine: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        folder = artefact_of(image).parent
        (folder / "planted").write_text("x")
        folder.chmod(0o777)
        assert made_again(image, pristine)
        assert folder.stat().st_mode & 0o777 == 0o700
        assert not (folder / "planted").exists()
        assert "writable by others" in caplog.text

    @attack("worker", "a link in place of a folder of artefacts")
    def test_that_is_a_link_is_replaced(self, image: Image, pristine: Path, tmp_path: Path) -> None:
        folder, elsewhere = artefact_of(image).parent, tmp_path / "elsewhere"
        folder.rename(elsewhere)
        kept = sorted(path.name for path in elsewhere.iterdir())
        folder.symlink_to(elsewhere)
        assert made_again(image, pristine)
        assert not folder.is_symlink()
        assert sorted(path.name for path in elsewhere.iterdir()) == kept

    @attack("worker", "a link, or a folder that others may write to, in place of an image")
    def test_of_an_image_is_looked_at_too(self, image: Image, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        image.folder.chmod(0o770)
        assert Image.load(image.folder) is None
        assert "writable by others" in caplog.text
        image.folder.chmod(0o700)
        assert Image.load(image.folder) == image
        elsewhere = tmp_path / "elsewhere"
        image.folder.rename(elsewhere)
        image.folder.symlink_to(elsewhere)
        assert Image.load(image.folder) is None
        fresh_folder(image.folder)
        assert not image.folder.is_symlink()
        assert (elsewhere / "component.wasm").exists()

    @attack("worker", "an image whose record or component was changed")
    def test_of_an_image_holds_what_was_built(self, image: Image, caplog: pytest.LogCaptureFixture) -> None:
        record = image.folder / "image.json"
        record.chmod(0o666)
        assert Image.load(image.folder) is None
        record.chmod(0o600)
        assert Image.load(image.folder) == image
        forge(image.component)
        assert Image.load(image.folder) is None
        assert "its content has changed" in caplog.text

    @as_root
    def test_of_another_user_is_refused(self, image: Image, tmp_path: Path) -> None:
        os.chown(image.folder, NOBODY, NOBODY)
        assert Image.load(image.folder) is None
        os.chown(tmp_path / "cache", NOBODY, NOBODY)
        with pytest.raises(ImageError, match="belongs to another user"):
            cache_folder()

    def test_is_the_users_own(self, image: Image) -> None:
        """Whatever the mask of the process that makes them."""
        before = os.umask(0)
        try:
            artefact = image.artefact("fuel")
            folders = [
                cache_folder(),
                images_folder(),
                artefact.parent.parent,
                fresh_folder(artefact.parent.parent / "new"),
            ]
            with lock(folders[-1] / ".plain.lock"):
                files = [artefact, seal_of(artefact), folders[-1] / ".plain.lock"]
        finally:
            os.umask(before)
        assert [path.stat().st_mode & 0o777 for path in folders] == [0o700] * 4
        assert [path.stat().st_mode & 0o777 for path in files] == [0o600] * 3

    def test_that_can_not_be_made_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(ImageError, match="can't be removed"):
            fresh_folder(tmp_path / "file" / "below")


class TestALock:
    @attack("worker", "a link in place of a lock")
    def test_does_not_follow_a_link(self, tmp_path: Path) -> None:
        victim = tmp_path / "victim"
        victim.write_text("precious")
        (tmp_path / ".plain.lock").symlink_to(victim)
        with pytest.raises(OSError, match="symbolic links"), lock(tmp_path / ".plain.lock"):
            pass
        assert victim.read_text() == "precious"

    def test_a_record_is_read_no_further_than_it_may_be_long(self, tmp_path: Path) -> None:
        record = tmp_path / "record.json"
        record.write_bytes(b'{"a":' + b" " * (1 << 20) + b"1}")
        record.chmod(0o600)
        with pytest.raises(ValueError, match="more than"):
            read_record(record)
