"""Consumers are files with Paimon's bytes, from which expiry learns what to keep."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stream_app.errors import CorruptFileError, UsageError
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.filestore.versions.consumer_manager import ConsumerManager
from tests.support.files.memory_file_io import MemoryFileIO
from tests.support.files.plain_object import plain_object

NOW = 1_767_225_600_000


@pytest.fixture
def manager(tmp_path: Path) -> ConsumerManager:
    return ConsumerManager(LocalFileIO(), str(tmp_path))


def written_at(root: str, consumer_id: str, millis: int) -> None:
    os.utime(f"{root}/consumer/consumer-{consumer_id}", (millis / 1000, millis / 1000))


def test_a_consumer_is_what_it_was_reset_to(manager: ConsumerManager) -> None:
    assert manager.next_snapshot_id("search") is None
    manager.reset("search", 3)
    manager.reset("search", 7)
    assert manager.next_snapshot_id("search") == 7
    path = Path(manager.root, "consumer", "consumer-search")
    assert plain_object(path.read_text()) == {"nextSnapshot": 7}
    assert list(path.parent.iterdir()) == [path], "nothing temporary is left"


def test_consumers_are_listed_by_name_and_deleted(manager: ConsumerManager) -> None:
    assert manager.consumers() == []
    manager.reset("b", 5)
    manager.reset("a", 2**40)
    assert [
        (consumer.consumer_id, consumer.next_snapshot_id) for consumer in manager.consumers()
    ] == [
        ("a", 2**40),
        ("b", 5),
    ]
    manager.delete("a")
    manager.delete("never there")
    assert [consumer.consumer_id for consumer in manager.consumers()] == ["b"]


def test_a_consumer_that_was_forgotten_stays_away_after_a_power_cut() -> None:
    files = MemoryFileIO()
    manager = ConsumerManager(files, "/t")
    for consumer_id in ("a", "b", "c"):
        manager.reset(consumer_id, 5)
    manager.delete("a")
    after_crash = ConsumerManager(files.after_crash(is_back=lambda _: True), "/t")
    assert [consumer.consumer_id for consumer in after_crash.consumers()] == ["b", "c"]
    manager.expire(files.clock.now_ms() + 1000, 500)
    assert ConsumerManager(files.after_crash(is_back=lambda _: True), "/t").consumers() == []


def test_expiry_must_leave_what_the_slowest_living_consumer_wants(manager: ConsumerManager) -> None:
    assert manager.min_next_snapshot_id(NOW, None) is None
    manager.reset("idle", 3)
    manager.reset("alive", 9)
    written_at(manager.root, "idle", NOW - 60_001)
    written_at(manager.root, "alive", NOW - 60_000)
    assert manager.min_next_snapshot_id(NOW, None) == 3
    assert manager.min_next_snapshot_id(NOW, 60_001) == 3
    assert manager.min_next_snapshot_id(NOW, 60_000) == 9
    assert manager.min_next_snapshot_id(NOW, 1) is None
    assert [consumer.consumer_id for consumer in manager.expire(NOW, 60_000)] == ["idle"]
    assert [consumer.consumer_id for consumer in manager.consumers()] == ["alive"]


def test_the_list_of_consumers_ignores_other_files(manager: ConsumerManager) -> None:
    manager.reset("a", 1)
    folder = Path(manager.root, "consumer")
    folder.joinpath(".consumer-a.tmp").write_text("half")
    folder.joinpath("README").write_text("notes")
    folder.joinpath("consumer-folder").mkdir()
    assert [consumer.consumer_id for consumer in manager.consumers()] == ["a"]


@pytest.mark.parametrize("text", ["", "{", "7", "{}", '{"nextSnapshot": "7"}'])
def test_a_damaged_consumer_stops_expiry_and_names_its_file(
    manager: ConsumerManager, text: str
) -> None:
    manager.reset("a", 1)
    Path(manager.root, "consumer", "consumer-a").write_text(text)
    with pytest.raises(CorruptFileError) as caught:
        manager.min_next_snapshot_id(NOW, None)
    assert caught.value.where.endswith("/consumer/consumer-a")


@pytest.mark.parametrize("name", ["", "a/b", "..\\b", "a\nb"])
def test_a_name_that_leaves_the_folder_is_refused(manager: ConsumerManager, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be named"):
        manager.reset(name, 1)
