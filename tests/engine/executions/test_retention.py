"""Which executions and images are kept, and that removing the others harms nobody."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer.errors import ConfigError
from go_ent.engine.cli.commands.image import prune_command
from go_ent.engine.core.config import RetentionConfig, read_engine_config
from go_ent.engine.executions.retention import EVERY_S, Retention, prune
from go_ent.engine.executions.state import Environment, ExecutionStatus
from go_ent.engine.storage.index import FILE
from go_ent.engine.storage.removal import GONE, STAMP
from go_ent.sandbox.images import Image, find_image, list_images, note_project, projects_of
from go_ent.sandbox.images.cache import MAX_PROJECTS, images_folder
from go_ent.sandbox.images.seals import digest_of, seal
from tests.engine.executions.test_executions import fresh
from tests.support import ROOT
from tests.support.executions import FileStore
from tests.support.forked import Forked


def made(store: FileStore, status: ExecutionStatus = "completed", age_s: float = 0.0, **changes: Any) -> str:
    """An execution that ended that long ago."""
    with store.create(fresh(**changes), sync=False) as held:
        held.move("running")
        held.move(status)
        store.index.put(held.state.model_copy(update={"updated": time.time() - age_s, "seq": held.state.seq + 1}))
        return held.id


def there(store: FileStore) -> list[str]:
    return sorted(name for name in os.listdir(store.folder) if not name.startswith((".", FILE)))


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path)


class TestWhatGoes:
    def test_all_but_the_newest(self, store: FileStore) -> None:
        ids = [made(store) for _ in range(5)]
        pruned = prune(store, keep=2)
        assert pruned.removed == ids[:3]
        assert pruned.bytes > 0
        assert there(store) == ids[3:]
        assert [row.id for row in store.index.rows()] == ids[:2:-1]

    def test_what_did_not_change_for_long(self, store: FileStore) -> None:
        old, new = made(store, age_s=5000), made(store, age_s=1000)
        assert prune(store, older_than_s=2000).removed == [old]
        assert there(store) == [new]

    def test_what_is_beyond_the_newest_bytes(self, store: FileStore) -> None:
        ids = [made(store) for _ in range(3)]
        for name in ids:
            (store.folder / name / "large").write_bytes(b"x" * 100_000)
        assert prune(store, max_bytes=250_000).removed == ids[:1]
        assert all(row.size > 100_000 for row in store.index.rows())

    def test_without_a_limit_nothing(self, store: FileStore) -> None:
        made(store, age_s=1e9)
        assert prune(store).removed == []

    def test_dry_it_only_says(self, store: FileStore) -> None:
        ids = [made(store), made(store)]
        pruned = prune(store, keep=0, dry_run=True)
        assert pruned.removed == ids
        assert pruned.bytes > 0
        assert there(store) == ids

    def test_what_just_changed_can_be_spared(self, store: FileStore) -> None:
        old, new = made(store, age_s=5000), made(store)
        assert prune(store, keep=0, spare_s=3600).removed == [old]
        assert there(store) == [new]

    def test_without_executions_nothing_is_made(self, store: FileStore) -> None:
        assert prune(store, keep=0).removed == []
        assert not store.folder.exists()


class TestWhatStays:
    @pytest.mark.parametrize("status", ["interrupted", "paused", "failed"])
    def test_what_can_be_resumed_unless_asked(self, store: FileStore, status: ExecutionStatus) -> None:
        waiting, done = made(store, status), made(store)
        pruned = prune(store, keep=0)
        assert (pruned.removed, pruned.kept_resumable) == ([done], 1)
        assert prune(store, keep=0, resumable=True).removed == [waiting]

    def test_what_an_old_one_that_stays_takes_is_not_taken_from_new_ones(self, store: FileStore) -> None:
        waiting, done = made(store, "interrupted"), made(store)
        (store.folder / waiting / "large").write_bytes(b"x" * 100_000)
        assert prune(store, keep=1, max_bytes=50_000).removed == []
        assert there(store) == [waiting, done]

    def test_the_parents_of_what_can_be_resumed(self, store: FileStore) -> None:
        top = made(store)
        middle = made(store, parent=top)
        child = made(store, "interrupted", parent=middle)
        other = made(store)
        assert prune(store, keep=0).removed == [other]
        assert prune(store, keep=1, resumable=True).removed == []
        assert prune(store, keep=0, resumable=True).removed == [top, middle, child]

    def test_what_another_process_runs(self, store: FileStore, tmp_path: Path) -> None:
        code = (
            "import sys; from pathlib import Path; from tests.support.executions import FileStore; "
            "from tests.engine.executions.test_executions import fresh; "
            "held = FileStore(Path(sys.argv[1])).create(fresh()); held.move('running'); "
            "print(held.id, flush=True); sys.stdin.readline()"
        )
        with Forked(str(tmp_path), code=code, stdin=-1, stdout=-1, text=True, cwd=ROOT) as running:
            assert running.stdout is not None
            name = running.stdout.readline().strip()
            assert prune(store, keep=0, resumable=True).removed == []
            assert prune(store, keep=0, resumable=True, dry_run=True).removed == []
            assert there(store) == [name]
            running.send_signal(signal.SIGKILL)
            running.communicate()
        assert prune(store, keep=0).removed == []
        assert prune(store, keep=0, resumable=True).removed == [name]

    def test_what_the_index_wrongly_takes_for_finished(self, store: FileStore) -> None:
        name = made(store, "interrupted")
        state = store.load(name)
        store.index.put(state.model_copy(update={"status": "completed", "seq": state.seq + 9}))
        assert prune(store, keep=0).removed == []
        assert there(store) == [name]

    def test_what_can_not_be_read(self, store: FileStore) -> None:
        name = made(store)
        (store.folder / name / "state.json").write_bytes(b"?")
        (store.folder / name / "journal.jsonl").write_bytes(b"?\n")
        assert prune(store, keep=0).removed == []
        assert there(store) == [name]


class TestRemoving:
    def test_what_a_killed_one_left_is_deleted_by_the_next(self, store: FileStore) -> None:
        name = made(store)
        os.rename(store.folder / name, store.folder / f"{GONE}{name}")
        prune(store)
        assert not [name for name in os.listdir(store.folder) if name.startswith(GONE)]

    def test_links_are_not_followed(self, store: FileStore, tmp_path: Path) -> None:
        precious = tmp_path / "precious"
        precious.mkdir()
        (precious / "file").write_bytes(b"x" * 1000)
        name, link = made(store), made(store)
        (store.folder / name / "link").symlink_to(precious)
        (store.folder / f"{GONE}link").symlink_to(precious)
        shutil.rmtree(store.folder / link)
        (store.folder / link).symlink_to(precious)
        assert prune(store, keep=0, max_bytes=1).removed == [name]
        assert (precious / "file").read_bytes() == b"x" * 1000
        assert sorted(os.listdir(precious)) == ["file"]

    def test_a_folder_of_executions_that_is_a_link_is_left_alone(self, store: FileStore, tmp_path: Path) -> None:
        name = made(store)
        store.index.close()
        os.rename(store.folder, tmp_path / "elsewhere")
        store.folder.symlink_to(tmp_path / "elsewhere")
        assert prune(store, keep=0).removed == []
        assert (tmp_path / "elsewhere" / name).is_dir()


class TestByItself:
    def test_it_keeps_to_the_configuration(self, store: FileStore) -> None:
        ids = [made(store, age_s=2 * EVERY_S) for _ in range(4)]
        waiting = made(store, "interrupted", age_s=2 * EVERY_S)
        retention = Retention(store, RetentionConfig(keep=3))
        retention.maybe()
        retention.wait(60)
        assert there(store) == [*ids[2:], waiting]

    def test_once_an_hour(self, store: FileStore) -> None:
        retention = Retention(store, RetentionConfig(keep=1))
        made(store)
        assert retention.maybe() is not None
        assert retention.maybe() is None
        retention.wait(60)
        old = [made(store, age_s=2 * EVERY_S), made(store, age_s=2 * EVERY_S)]
        another = Retention(store, RetentionConfig(keep=1))
        assert another.maybe() is not None
        another.wait(60)
        assert set(old) <= set(there(store))
        os.utime(store.folder / STAMP, (time.time() - EVERY_S - 1,) * 2)
        later = Retention(store, RetentionConfig(keep=1))
        later.maybe()
        later.wait(60)
        assert old[0] not in there(store)

    def test_not_when_it_is_turned_off(self, store: FileStore) -> None:
        assert Retention(store, RetentionConfig(auto=False)).maybe() is None

    def test_it_fails_nobody(self, store: FileStore) -> None:
        retention = Retention(store, RetentionConfig())
        retention.maybe()
        retention.wait(60)
        assert not store.folder.exists()
        store.folder.mkdir(parents=True)
        os.mkfifo(store.folder / STAMP)
        retention = Retention(store, RetentionConfig())
        retention.maybe()
        retention.wait(60)


class TestConfiguration:
    def write(self, folder: Path, text: str) -> None:
        (folder / ".go-ent").mkdir(exist_ok=True)
        (folder / ".go-ent" / "config.toml").write_text(f"[executions]\n{text}\n")

    def test_it_is_read(self, tmp_path: Path) -> None:
        assert read_engine_config(tmp_path).executions == RetentionConfig(keep=1000, days=30, max_mb=2048, auto=True)
        self.write(tmp_path, "keep = 5\ndays = 0.5\nauto = false")
        assert read_engine_config(tmp_path).executions == RetentionConfig(keep=5, days=0.5, auto=False)

    @pytest.mark.parametrize(
        "line", ["days = 0", "keep = 0", "max_mb = -1", "days = inf", "resumable = true", 'keep = "all"']
    )
    def test_what_makes_no_sense_is_refused(self, tmp_path: Path, line: str) -> None:
        self.write(tmp_path, line)
        with pytest.raises(ConfigError, match=r"executions\." + line.split(maxsplit=1)[0]):
            read_engine_config(tmp_path)


def image_of(letter: str) -> Image:
    """An image in the cache that can be told from others; nothing is run with it."""
    folder = images_folder() / (letter * 32)
    folder.mkdir()
    (folder / "component.wasm").write_text(letter)
    digest = digest_of(folder / "component.wasm")
    seal(folder / "component.wasm", {"image": digest})
    record = {"key": folder.name, "digest": digest, "packages": [], "memory_bytes": 1, "built": letter}
    (folder / "image.json").write_text(json.dumps(record))
    found = Image.load(folder)
    assert found is not None
    return found


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GO_ENT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    return tmp_path / "cache"


@pytest.mark.usefixtures("cache")
class TestImages:
    def test_found_by_its_digest(self) -> None:
        first, second = image_of("a"), image_of("b")
        assert find_image(second.digest) == second
        assert find_image(first.digest) == first
        assert find_image("0" * 64) is None

    def test_the_projects_that_used_it_are_remembered_once(self, tmp_path: Path) -> None:
        image = image_of("a")
        odd = tmp_path / "with\nline and ü"
        odd.mkdir()
        assert projects_of(image) == []
        for project in (tmp_path, odd, tmp_path):
            note_project(image, project)
        assert projects_of(image) == [tmp_path, odd]

    def test_projects_that_are_gone_make_room(self, tmp_path: Path) -> None:
        image = image_of("a")
        for name in ("gone", "stays"):
            (tmp_path / name).mkdir()
            note_project(image, tmp_path / name)
        (tmp_path / "gone").rmdir()
        note_project(image, tmp_path)
        assert projects_of(image) == [tmp_path / "stays", tmp_path]

    @pytest.mark.parametrize("data", [b"x" * (MAX_PROJECTS + 1), b"{\n", b"1\n", b'"relative"\n'])
    def test_a_list_that_is_not_known_keeps_the_image(self, data: bytes) -> None:
        image = image_of("a")
        (image.folder / "projects").write_bytes(data)
        assert projects_of(image) is None
        assert prune_command() == 0
        assert list_images() == [image]

    def test_what_an_execution_needs_to_be_resumed_is_not_pruned(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        waiting, done, unused = image_of("a"), image_of("b"), image_of("c")
        for image, status in ((waiting, "interrupted"), (done, "completed")):
            project = tmp_path / image.key
            project.mkdir()
            note_project(image, project)
            made(FileStore(project), status, environment=Environment(go_ent="0", python="3", image=image.digest))  # type: ignore[arg-type]
        note_project(unused, tmp_path / "gone")
        assert prune_command(all_=True) == 0
        assert list_images() == [waiting]
        assert "kept 1" in capsys.readouterr().err
        assert prune_command(all_=True, resumable=True) == 0
        assert list_images() == []

    def test_a_project_that_can_not_be_read_keeps_its_image(self, tmp_path: Path) -> None:
        image = image_of("a")
        note_project(image, tmp_path)
        (tmp_path / ".go-ent").symlink_to(tmp_path / ".go-ent")
        assert prune_command() == 0
        assert list_images() == [image]
