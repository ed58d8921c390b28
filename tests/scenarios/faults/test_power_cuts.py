"""A power cut after each change of a version's file undoes the deletions that were not synced.

Which of them come back is up to the disk: all, those of one folder, or any of them. Whatever
did: what is there reads right, the same command finishes, and a job continues.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.announcements import is_announced, is_complete
from tests.support.files.memory_file_io import MemoryFileIO
from tests.support.histories.tagged_history import add_tag, drop_tags, roll_back_to
from tests.support.jobs.table_writer import TableWriter
from tests.support.tables.expire_now import expire
from tests.support.tables.expiring_table import rows_of, versions
from tests.support.tables.memory_table import copy_of, memory_table
from tests.support.tables.sound_table import findings_of

OPTIONS = {
    "bucket": "1",
    "changelog-producer": "input",
    "num-sorted-run.compaction-trigger": "3",
    "file-operation.thread-num": "1",
}
KEEPS_CHANGELOGS = {"changelog.num-retained.max": "5", "changelog.num-retained.min": "5"}
Work = Callable[[FileStoreTable], object]


@dataclass(slots=True)
class WatchedFileIO(MemoryFileIO):
    """Does something after each change of the files."""

    note_change: Callable[[str], None] = field(default=lambda _: None)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        is_created = MemoryFileIO.create_if_absent(self, path, data)
        self.note_change(f"create {path}")
        return is_created

    def overwrite(self, path: str, data: bytes) -> None:
        MemoryFileIO.overwrite(self, path, data)
        self.note_change(f"overwrite {path}")

    def delete(self, path: str) -> None:
        MemoryFileIO.delete(self, path)
        self.note_change(f"delete {path}")

    def sync_deletions(self, folder: str) -> None:
        MemoryFileIO.sync_deletions(self, folder)
        self.note_change(f"sync deletions of {folder}")


def watched_table(table: FileStoreTable, note_change: Callable[[str], None]) -> FileStoreTable:
    copied_files = copy_of(table).file_io
    assert isinstance(copied_files, MemoryFileIO)
    files = WatchedFileIO(
        copied_files.clock, copied_files._files, copied_files._folders, note_change=note_change
    )
    return replace(table, file_io=files)


def is_of_a_version(path: str) -> bool:
    return path.split("/")[2] in ("snapshot", "changelog", "tag", "consumer")


def after_power_cuts(table: FileStoreTable, place: int) -> Iterator[tuple[str, FileStoreTable]]:
    """The table as it may be found, by which deletions came back."""
    files = table.file_io
    assert isinstance(files, MemoryFileIO)
    rng = random.Random(place)
    ways: dict[str, Callable[[str], bool]] = {
        "all": lambda _: True,
        "snapshots": lambda path: path.startswith("/t/snapshot/"),
        "tags": lambda path: path.startswith("/t/tag/tag-"),
        "any": lambda _: rng.random() < 0.5,
    }
    for cut_name, is_back in ways.items():
        yield cut_name, replace(table, file_io=files.after_crash(is_back=is_back))


def a_table(options: dict[str, str]) -> FileStoreTable:
    """Six epochs and their compactions; tags on the second, fourth and next to last version."""
    table = memory_table(OPTIONS | options)
    writer = TableWriter(table)
    for number in range(6):
        writer.write([("+I", {"k": number % 3, "v": f"{number}"}), ("-D", {"k": number % 2})])
    writer.commit.compact_due()
    latest = table.snapshots.latest_id()
    assert latest is not None
    for number in (2, 4, latest - 1):
        add_tag(table, f"t{number}", number)
    return table


def go_on(table: FileStoreTable) -> None:
    """A job writes, and all that is old goes."""
    writer = TableWriter(table, user="next")
    for number in range(3):
        writer.write([("+I", {"k": number, "v": "next"})])
    writer.commit.compact_fully()
    expire(table, num_max=1, num_min=1)
    for name in table.tags.names():
        drop_tags(table, name)
    assert findings_of(table, quick=True) == []
    assert len(rows_of(table, versions(table)[str(table.snapshots.latest_id())])) == 3


def sound_after_cuts_everywhere(
    table: FileStoreTable, work: Work, *, expires: bool = False
) -> list[str]:
    """Do the work with a power cut after each change; the table must be sound after each.

    Args:
        expires: versions may be half gone, as long as that is announced.

    Returns:
        The changes after which the power went.
    """
    rows = {name: rows_of(table, version) for name, version in versions(table).items()}
    finished_table, operations, cuts = copy_of(table), list[str](), list[str]()
    work(finished_table)
    expected = set(versions(finished_table))
    # What was restored from its tag reads as that did.
    rows |= {
        name: rows_of(finished_table, version) for name, version in versions(finished_table).items()
    }

    def check(cut_name: str, cut_table: FileStoreTable) -> None:
        case = f"{cut_name} back after {len(operations)}, {operations[-1]}"
        ids = cut_table.snapshots.ids()
        assert cut_table.snapshots.latest_id() == ids[-1], case
        hint = cut_table.snapshots.hints()[0]
        assert hint is None or hint in ids or hint + 1 in ids, f"{case}: Paimon trusts {hint}"
        for name, version in versions(cut_table).items():
            if not expires or name in expected:
                assert rows_of(cut_table, version) == rows[name], (case, name)
            else:
                number = version.snapshot_id
                assert is_complete(cut_table, number) or is_announced(cut_table, number), (
                    case,
                    name,
                )
        work(cut_table)
        assert set(versions(cut_table)) == expected, case
        assert findings_of(cut_table, quick=True) == [], case
        if cut_name == "snapshots":
            go_on(cut_table)

    def cut(operation: str) -> None:
        operations.append(operation)
        # Files that versions name go one like the other: a few of them will do.
        if not is_of_a_version(operation.rsplit(maxsplit=1)[-1]) and len(operations) % 12:
            return
        cuts.append(operation)
        for cut_name, cut_table in after_power_cuts(struck, len(operations)):
            check(cut_name, cut_table)

    struck = watched_table(table, cut)
    work(struck)
    assert set(versions(struck)) == expected
    return cuts


def deletion_count(cuts: list[str], folder: str) -> int:
    """Return how many of the cuts followed a deletion in a folder."""
    return sum(operation.startswith(f"delete /t/{folder}/") for operation in cuts)


@pytest.mark.parametrize(
    "options",
    [pytest.param({}, marks=pytest.mark.variant), KEEPS_CHANGELOGS],
    ids=["", "changelogs kept"],
)
def test_a_power_cut_during_an_expiry_leaves_a_sound_table(options: dict[str, str]) -> None:
    expiry = partial(expire, num_max=2, num_min=2)
    cuts = sound_after_cuts_everywhere(a_table(options), expiry, expires=True)
    assert deletion_count(cuts, "snapshot") > 4


def test_a_power_cut_while_a_tag_is_deleted_leaves_a_sound_table() -> None:
    table = a_table({})
    expire(table, num_max=2, num_min=2)

    def take_away_what_is_there(table: FileStoreTable) -> None:
        names = {"t2", "t4"} & set(table.tags.names())
        drop_tags(table, *sorted(names))

    cuts = sound_after_cuts_everywhere(table, take_away_what_is_there)
    assert deletion_count(cuts, "tag") >= 2


@pytest.mark.parametrize(
    "target", [{"snapshot": 5}, pytest.param({"tag": "t4"}, marks=pytest.mark.variant)]
)
def test_a_power_cut_during_a_rollback_leaves_a_sound_table(target: dict[str, Any]) -> None:
    table = a_table({} if "snapshot" in target else KEEPS_CHANGELOGS)
    if "tag" in target:
        expire(table, num_max=3, num_min=3)
    cuts = sound_after_cuts_everywhere(table, lambda table: roll_back_to(table, **target))
    assert deletion_count(cuts, "snapshot") >= 1
