"""Append tables of which rows are deleted while they are written and compacted."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.format.deletion_vector import DeletionVector
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from stream_app.table.deletion_vectors import deletion_vectors, index_changes, write_index_manifest
from stream_app.table.file_store_scan import FileStoreScan
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.stream_commit import StreamTableCommit
from tests.support.small_table import small_table
from tests.support.table_writer import CompactInThreads, TableWriter, read_rows

pytestmark = pytest.mark.usefixtures("unsynced")


def delete_some(table: FileStoreTable, rng: random.Random) -> set[int]:
    """One DELETE on top of the newest snapshot; the keys, none when another was faster."""
    latest = table.snapshots.latest()
    if latest is None:
        return set()
    try:
        entries = FileStoreScan(table).live(latest)
        entry = rng.choice(entries)
        bucket = entry.partition, entry.bucket
        there = deletion_vectors(table, latest, [bucket]).get(bucket, {}).get(entry.file.file_name)
        keys = [
            k
            for b in table.bucket_files(*bucket).read(entry.file)
            for k in b.column("k").to_pylist()
        ]
    except Exception:  # the file is gone meanwhile
        return set()
    at = rng.randrange(len(keys))
    one = DeletionVector.of([at])
    if there is not None and there.union(one).cardinality == there.cardinality:
        return set()
    live = table.manifests.read_index_manifest(latest.index_manifest)
    changes = index_changes(table, live, bucket, deleted={entry.file.file_name: one})
    base = table.manifests.write_list(FileStoreScan(table).manifests(latest))
    delta = table.manifests.write_list([])
    done = table.snapshots.publish(
        replace(
            latest, snapshot_id=latest.snapshot_id + 1, base_manifest_list=base[0],
            base_manifest_list_size=base[1], delta_manifest_list=delta[0],
            delta_manifest_list_size=delta[1], commit_user="deleter",
            index_manifest=write_index_manifest(table, latest, changes),
            commit_identifier=BATCH_COMMIT_IDENTIFIER, commit_kind=CommitKind.OVERWRITE,
            delta_record_count=0, properties=None, changelog_manifest_list=None,
            changelog_manifest_list_size=None,
        )
    )  # fmt: skip
    return {keys[at]} if done else set()


@pytest.mark.parametrize("service", [False, True])
@pytest.mark.parametrize(
    "options", [{"bucket": -1}, {"bucket": 2, "bucket-key": "k"}], ids=["unaware", "buckets"]
)
def test_deletes_beside_compactions(
    tmp_path: Path, seed: int, options: dict[str, Any], service: bool
) -> None:
    table = small_table(
        tmp_path / "db.db" / "t", "k INT, v STRING", deletion_vectors__enabled="true",
        compaction__min__file_num=3, commit__max_retries=1000, **options,
    ).table  # fmt: skip
    all_written = threading.Event()

    def job() -> TableWriter:
        writer = TableWriter(table, CompactInThreads)
        for epoch in range(40):
            writer.write([("+I", {"k": 10 * epoch + i, "v": "x"}) for i in range(5)])
            time.sleep(0.05)
            writer.commit.commit_idle()
        writer.commit.drain()
        return writer

    def compact() -> None:
        compactor = StreamTableCommit(
            table, "compactor", CompactInThreads(table), last_identifier=BATCH_COMMIT_IDENTIFIER
        )
        while service and not all_written.is_set():
            compactor.touch()
            compactor.drain()
            time.sleep(0.05)

    def delete() -> set[int]:
        rng, gone = random.Random(seed), set()
        while not all_written.is_set():
            gone |= delete_some(table, rng)
            time.sleep(0.02)
        return gone

    with ThreadPoolExecutor(3) as threads:
        compacting, deleting = threads.submit(compact), threads.submit(delete)
        try:
            writer = threads.submit(job).result()
        finally:
            all_written.set()
        compacting.result()
        gone = deleting.result()
    found = sorted(row["k"] for row in read_rows(table))
    wanted = sorted(row["k"] for row in writer.model.rows() if row["k"] not in gone)
    assert gone
    assert found == wanted
