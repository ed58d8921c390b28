"""The driver can drop its memory of a table at any time, and reads it from the table again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from stream_app.format.binary_row import deserialize_row, serialize_row
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.table_writer import TableWriter, by_content, read_rows
from tests.support.tables.small_table import Change, small_table
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.usefixtures("unsynced")
EPOCHS = 14
DAYS = ("mon", "tue")
KINDS = {
    # Smaller sequence numbers make a file a few bytes smaller: no choice may hang on these.
    "primary key": {
        "bucket": 2,
        "num_sorted_run__compaction_trigger": 3,
        "compaction__size_ratio": 1000,
        "compaction__max_size_amplification_percent": 10_000,
        "keys": ("dt", "k"),
    },
    "full compactions": {
        "bucket": 1,
        "keys": ("dt", "k"),
        "full_compaction__delta_commits": 4,
        "changelog_producer": "input",
    },
    "buckets without a key": {
        "bucket": 2, "bucket_key": "k", "compaction__min__file_num": 3, "keys": (),
    },
    "no buckets": {"bucket": -1, "compaction__min__file_num": 3, "keys": ()},
}  # fmt: skip


def a_writer(folder: Path, kind: str) -> TableWriter:
    options: dict[str, Any] = dict(KINDS[kind])
    keys = options.pop("keys")
    columns = "dt STRING NOT NULL, k INT NOT NULL, v STRING"
    path = folder / "db.db" / "t"
    return TableWriter(small_table(path, columns, keys, ("dt",), **options).table)


def recorded_commits(table: FileStoreTable) -> list[tuple[object, ...]]:
    """All that snapshots say, but for names, sizes, times and sequence numbers.

    The numbers go on above the largest that is left in the table, so they may be smaller.
    """
    scan = FileStoreScan(table)

    def described(entry: ManifestEntry) -> tuple[object, ...]:
        file = entry.file
        day = deserialize_row(entry.partition, table.schema.partition_type.types)
        keys = [deserialize_row(key, table.schema.key_type.types) for key in ends(entry)]
        return entry.kind.name, day, entry.bucket, file.level, file.row_count, keys

    def ends(entry: ManifestEntry) -> list[bytes]:
        return (
            [entry.file.min_key, entry.file.max_key]
            if table.schema.kind_traits.merges_by_key
            else []
        )

    return [
        (
            snapshot.commit_user,
            snapshot.commit_identifier,
            snapshot.commit_kind,
            snapshot.total_record_count,
            snapshot.delta_record_count,
            snapshot.changelog_record_count,
            sorted(map(repr, map(described, scan.delta(snapshot)))),
        )
        for snapshot in check_chain(table)
    ]


def appends(table: FileStoreTable) -> list[tuple[object, ...]]:
    return [commit for commit in recorded_commits(table) if commit[2] is CommitKind.APPEND]


def changes(rng: random.Random, epoch: int, *, deletes: bool) -> list[Change]:
    kinds = ["+I", "+I", "-D"] if deletes else ["+I"]
    changes: list[Change] = [
        (rng.choice(kinds), {"dt": rng.choice(DAYS), "k": rng.randrange(9), "v": f"{epoch}.{n}"})
        for n in range(rng.randrange(1, 9))
    ]
    if epoch == 6:
        # A job that remembers a bucket compacts it after other writers, without rows of its own;
        # a job that has forgotten the bucket compacts it with its next rows.
        changes.append(("+I", {"dt": "mon", "k": 1, "v": "behind the other's"}))
    return changes


def other_writers(table: FileStoreTable, epoch: int) -> None:
    if epoch == 5:
        TableWriter(table, user="other").write(
            [("+I", {"dt": "mon", "k": 1, "v": "other's"}), ("+I", {"dt": "wed", "k": 1, "v": "x"})]
        )
    if epoch == 9:
        commit = FileStoreCommit(table, CommitHistory(table, "batch", table.snapshots.latest()))
        monday = serialize_row(["mon"], table.schema.partition_type.types)
        commit.drop_partitions([monday], BATCH_COMMIT_IDENTIFIER)


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_forgets_after_every_epoch_makes_the_same_snapshots(
    tmp_path: Path, seed: int, kind: str
) -> None:
    """Compactions in flight are done first: these are work, not memory."""
    tables = []
    for forgets in (False, True):
        rng = random.Random(seed)
        writer = a_writer(tmp_path / str(forgets), kind)
        for epoch in range(EPOCHS):
            if forgets:
                writer.restart()
            writer.write(changes(rng, epoch, deletes=writer.table.schema.kind_traits.merges_by_key))
            writer.commit.compact_due()
            other_writers(writer.table, epoch)
        tables.append(writer.table)
    remembering, forgetful = tables
    if kind == "no buckets":
        # How long small files have waited for more of them is not in the table: the moment of
        # their compaction may differ, no more.
        expected, commits = (appends(table) for table in tables)
        assert commits == expected
    else:
        assert recorded_commits(forgetful) == recorded_commits(remembering)
    assert by_content(read_rows(forgetful)) == by_content(read_rows(remembering))
    assert CommitKind.COMPACT in {commit[2] for commit in recorded_commits(forgetful)}
