"""Images: built once, cached by content, never trusted blindly."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from go_ent.composer.project.image import project_packages
from go_ent.sandbox import Image, ImageError, LimitError, Limits, PackageError, Sandbox
from go_ent.sandbox.host.limits import MIN_MEMORY_MB
from go_ent.sandbox.images import cache_folder, ensure_image, list_images, prune_images
from go_ent.sandbox.images.immortal import HEAD, IMMORTAL, MARK, WORDS, make_immortal
from go_ent.sandbox.images.packages import check_requirements, inspect_wheel
from go_ent.sandbox.images.seals import seal, sealed

BEING_WRITTEN = shutil.ignore_patterns(".tmp-*")  # by other tests, in the cache that all share


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own that holds the standard image, not yet compiled."""
    image = ensure_image()
    cache = tmp_path / "cache"
    monkeypatch.setenv("GO_ENT_CACHE", str(cache))
    shutil.copytree(image.folder, cache / "images" / image.folder.name, ignore=BEING_WRITTEN)
    return cache


class TestSnapshot:
    def test_its_objects_are_immortal(self) -> None:
        component = ensure_image().component.read_bytes()
        assert component.count(IMMORTAL.to_bytes(4, "little")) > 150_000
        assert MARK not in component  # the census itself is wiped

    def test_an_image_without_a_census_is_refused(self) -> None:
        with pytest.raises(ImageError, match="no census"):
            make_immortal(bytearray(ensure_image().component.read_bytes()))

    def test_only_what_looks_like_an_object_is_changed(self) -> None:
        """A kind (of itself), an object of it, a count that is an address, and something whose kind is no object."""
        words = {100: 3, 104: 100, 200: 1, 204: 100, 300: 5_000_000, 304: 100, 400: 1, 404: 99, 500: 1, 504: 100}
        memory = bytearray(4096)
        for address, word in words.items():
            memory[address : address + 4] = word.to_bytes(4, "little")
        marks = bytearray(WORDS // 8)
        for address in (100, 200, 300, 400):  # not 500
            marks[address // 4 // 8] |= 1 << (address // 4 % 8)
        component = _component({0: bytes(memory), 4096: MARK + bytes(HEAD.size) + bytes(marks)})
        assert make_immortal(component) == 2
        made = bytearray(component)
        for address, word in ((100, IMMORTAL), (200, IMMORTAL), (300, 5_000_000), (400, 1), (500, 1)):
            at = made.find(bytes(memory[:100])) + address
            assert int.from_bytes(made[at : at + 4], "little") == word, address
        assert MARK not in made

    def test_code_does_not_count_the_constants_that_are_immortal(self) -> None:
        """Of code with three constants, the last of which is no object: each is loaded, one of them in an instruction
        that is extended, and once there is something else in a cache that looks like loading one.
        """
        mortal, immortal, extended, cached = 83, 82, 69, 44
        code_type, code, constants, first, second, units = 100, 200, 400, 500, 600, 128
        head = HEAD.pack(code_type, units, 16, mortal, immortal, extended, bytes(44) + b"\1" + bytes(211))
        program = bytes([mortal, 0, cached, 0, mortal, 0, extended, 1, mortal, 0, mortal, 2, mortal, 1])
        words = {100: 3, 104: 100, 200: 1, 204: code_type, 208: len(program) // 2, 212: constants, 500: 1, 504: 100}
        words |= {600: 1, 604: 100, 416: first, 420: second, 424: 700, 416 + 4 * 256: second}
        memory = bytearray(4096)
        for address, word in words.items():
            memory[address : address + 4] = word.to_bytes(4, "little")
        memory[code + units : code + units + len(program)] = program
        marks = bytearray(WORDS // 8)
        for address in (code_type, code, first, second):
            marks[address // 4 // 8] |= 1 << (address // 4 % 8)
        component = _component({0: bytes(memory), 4096: MARK + head + bytes(marks)})
        assert make_immortal(component) == 4
        at = component.find(bytes(memory[:100])) + code + units
        expected = bytes([immortal, 0, cached, 0, mortal, 0, extended, 1, immortal, 0, mortal, 2, immortal, 1])
        assert component[at : at + len(program)] == expected


def _component(memory: dict[int, bytes]) -> bytearray:
    """The least that is a component with a core module with that memory."""

    def number(value: int) -> bytes:
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*out, value])

    segments = b"".join(b"\0\x41" + number(at) + b"\x0b" + number(len(data)) + data for at, data in memory.items())
    section = number(len(memory)) + segments
    module = b"\0asm\1\0\0\0" + b"\x0b" + number(len(section)) + section
    return bytearray(b"\0asm\x0d\0\1\0" + b"\x01" + number(len(module)) + module)


class TestCache:
    def test_folder_is_private(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GO_ENT_CACHE", str(tmp_path / "open"))
        (tmp_path / "open").mkdir(mode=0o755)
        assert cache_folder().stat().st_mode & 0o777 == 0o700
        monkeypatch.delenv("GO_ENT_CACHE")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        assert cache_folder() == tmp_path / "xdg" / "go-ent"
        assert cache_folder().stat().st_mode & 0o777 == 0o700

    def test_image_is_its_components_digest(self) -> None:
        import hashlib

        image = ensure_image()
        assert image.digest == hashlib.sha256(image.component.read_bytes()).hexdigest()
        assert 20 << 20 < image.memory_bytes < MIN_MEMORY_MB << 20

    def test_seal(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        path = tmp_path / "a"
        path.write_bytes(b"content")
        path.chmod(0o600)
        assert not sealed(path, {"kind": "x"})
        seal(path, {"kind": "x"})
        assert sealed(path, {"kind": "x"})
        caplog.clear()

        def distrusted(reason: str) -> bool:
            caplog.clear()
            return not sealed(path, {"kind": "x"}) and reason in caplog.text

        assert not sealed(path, {"kind": "y"})
        path.write_bytes(b"conten")
        assert distrusted("6 bytes instead of 7")
        path.write_bytes(b"kontent")
        assert distrusted("its content has changed")
        path.write_bytes(b"content")
        path.chmod(0o666)
        assert distrusted("writable by others")
        (tmp_path / "a.json").write_text("{")
        assert distrusted("Expecting property name")
        (tmp_path / "a.json").unlink()
        assert distrusted("No such file")

    def test_touched_but_unchanged_is_trusted_again(self, tmp_path: Path) -> None:
        path = tmp_path / "a"
        path.write_bytes(b"content")
        path.chmod(0o600)
        seal(path, {})
        os.utime(path, (1, 1))
        assert sealed(path, {})
        assert json.loads((tmp_path / "a.json").read_text())["mtime_ns"] == 10**9

    @pytest.mark.long
    def test_damaged_artefact_is_made_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        image = ensure_image()
        compiled = image.artefact("plain").parent
        cache = tmp_path / "cache"
        for folder in (image.folder, compiled):
            shutil.copytree(folder, cache / folder.relative_to(cache_folder()), ignore=BEING_WRITTEN)
        monkeypatch.setenv("GO_ENT_CACHE", str(cache))
        artefact = ensure_image().artefact("plain")
        assert artefact.is_relative_to(cache)
        with open(artefact, "r+b") as file:
            file.truncate(1000)
        with caplog.at_level(logging.WARNING, "go_ent.sandbox.images"), Sandbox() as box:
            assert box.run_sync("1+1").result == 2
        assert "is not to be trusted" in caplog.text

    def test_list_and_prune(self, own_cache: Path) -> None:
        image = ensure_image()
        other = own_cache / "images" / ("0" * 32)
        shutil.copytree(image.folder, other, ignore=BEING_WRITTEN)
        (own_cache / "compiled" / "feed").mkdir(parents=True)
        assert len(list_images()) == 2
        removed, freed = prune_images({image.key})
        assert removed == ["0" * 32]
        assert freed > 10 << 20
        assert [found.key for found in list_images()] == [image.key]
        assert not (own_cache / "compiled" / "feed").exists()

    def test_broken_record_is_no_image(self, own_cache: Path, caplog: pytest.LogCaptureFixture) -> None:
        image = ensure_image()
        (image.folder / "image.json").write_text("[]")
        assert Image.load(image.folder) is None
        assert "it is made again" in caplog.text

    def test_memory_less_than_the_image(self) -> None:
        image = ensure_image()
        large = dataclasses.replace(image, memory_bytes=100 << 20)
        with (
            Sandbox(limits=Limits(memory_mb=64), image=large) as box,
            pytest.raises(LimitError, match="this image itself takes 100 MB"),
        ):
            box.run_sync("1")


class TestPackages:
    @pytest.mark.parametrize(
        "bad", ["a @ http://x/y", "-r file", "--index-url x", "./local", "a; import os", "a\nb", ""]
    )
    def test_requirements_are_names(self, bad: str) -> None:
        with pytest.raises(PackageError, match="is not a requirement"):
            check_requirements([bad], Path("config.toml"))

    def test_config(self, tmp_path: Path) -> None:
        assert project_packages(tmp_path) == ()
        config = tmp_path / ".go-ent" / "config.toml"
        config.parent.mkdir()
        config.write_text('[image]\npackages = ["b==2", "a>=1,<2"]\n')
        (tmp_path / "deep").mkdir()
        assert project_packages(tmp_path / "deep") == ("a>=1,<2", "b==2")
        config.write_text("[image]\npackages = 'a'\n")
        with pytest.raises(PackageError, match="must be a list of requirements"):
            project_packages(tmp_path)
        config.write_text("[image]\npackges = []\n")
        with pytest.raises(PackageError, match="there is no setting image"):
            project_packages(tmp_path)
        config.write_text("[image\n")
        with pytest.raises(PackageError, match=r"config.toml:1: it is not valid TOML"):
            project_packages(tmp_path)

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("pkg/fast.cpython-314-x86_64-linux-gnu.so", "pkg has native code"),
            ("pkg/lib.so.1", "pkg has native code"),
            ("../evil.py", "outside its folder"),
            ("/evil.py", "outside its folder"),
            ("a\\..\\evil.py", "outside its folder"),
        ],
    )
    def test_wheels_are_inspected(self, tmp_path: Path, name: str, reason: str) -> None:
        wheel = tmp_path / "pkg-1-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("pkg/__init__.py", "")
            archive.writestr(name, "x")
        with pytest.raises(PackageError, match=reason):
            inspect_wheel(wheel)

    def test_not_a_wheel(self, tmp_path: Path) -> None:
        wheel = tmp_path / "pkg-1-py3-none-any.whl"
        wheel.write_bytes(b"not a zip")
        with pytest.raises(PackageError, match="is not a wheel"):
            inspect_wheel(wheel)


@pytest.mark.long
class TestBuild:
    def test_two_builders_build_once(self, tmp_path: Path) -> None:
        code = "from go_ent.sandbox.images import ensure_image; print(ensure_image().digest)"
        environment = {**os.environ, "GO_ENT_CACHE": str(tmp_path / "cache")}
        say = subprocess.PIPE
        builders = [  # whose files a group may write to, if nothing else is said
            subprocess.Popen(
                [sys.executable, "-c", code], env=environment, stdout=say, stderr=say, text=True, umask=0o002
            )
            for _ in range(2)
        ]
        outputs = [builder.communicate(timeout=600) for builder in builders]
        assert [builder.returncode for builder in builders] == [0, 0]
        assert len({out for out, _ in outputs}) == 1
        assert "".join(err for _, err in outputs).count("built the sandbox image") == 1

    def test_packages_are_baked_in(self, tmp_path: Path) -> None:
        from go_ent.composer.project.image import project_image

        config = tmp_path / ".go-ent" / "config.toml"
        config.parent.mkdir()
        config.write_text('[image]\npackages = ["tabulate==0.9.0"]\n')
        image = project_image(tmp_path, trusted=True)
        assert image.packages == ("tabulate==0.9.0",)
        assert image.digest != ensure_image().digest
        with Sandbox(image=image) as box:
            run = box.run_sync("from tabulate import tabulate\ntabulate([[1, 2]], headers=['a', 'b'])")
        assert run.status == "completed", run.error
        assert "a    b" in str(run.result)

    def test_native_code_is_refused_by_name(self, tmp_path: Path) -> None:
        from go_ent.composer.project.image import project_image

        config = tmp_path / ".go-ent" / "config.toml"
        config.parent.mkdir()
        config.write_text('[image]\npackages = ["numpy"]\n')
        with pytest.raises(PackageError, match="numpy has native code"):
            project_image(tmp_path, trusted=True)


def test_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GO_ENT_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(ImageError, match="belongs to another user"):
        cache_folder()
