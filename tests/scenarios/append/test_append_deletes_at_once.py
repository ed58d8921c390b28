"""Writers delete rows of an append table while others write and compact it."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.table.job.stream_table_commit import StreamTableCommit
from tests.support.jobs.table_writer import CompactInThreads, CompactLater, TableWriter, read_rows
from tests.support.tables.deleted_rows import delete_some
from tests.support.tables.small_table import small_table

pytestmark = pytest.mark.usefixtures("unsynced")


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
        writer.commit.compact_due()
        return writer

    def compact() -> None:
        compactor = StreamTableCommit(
            table, "compactor", CompactInThreads(table), last_identifier=BATCH_COMMIT_IDENTIFIER
        )
        while service and not all_written.is_set():
            compactor.state.follow_and_load(None)
            compactor.compact_due()
            time.sleep(0.05)

    def delete() -> set[int]:
        rng, deleted_keys = random.Random(seed), set()
        while not all_written.is_set():
            deleted_keys |= delete_some(table, rng)
            time.sleep(0.02)
        return deleted_keys

    with ThreadPoolExecutor(3) as threads:
        compacting, deleting = threads.submit(compact), threads.submit(delete)
        try:
            writer = threads.submit(job).result()
        finally:
            all_written.set()
        compacting.result()
        deleted_keys = deleting.result()
    keys = sorted(row["k"] for row in read_rows(table))
    expected = sorted(row["k"] for row in writer.model.rows() if row["k"] not in deleted_keys)
    assert deleted_keys
    assert keys == expected


def test_a_compaction_that_left_out_rows_whose_deletion_was_rolled_back_is_dropped(
    tmp_path: Path,
) -> None:
    table = small_table(
        tmp_path / "db.db" / "t", "k INT, v STRING", deletion_vectors__enabled="true",
        compaction__min__file_num=2, bucket=1, bucket_key="k",
    ).table  # fmt: skip
    writer = TableWriter(table, CompactLater)
    for number in range(3):
        writer.write([("+I", {"k": number, "v": "x"}), ("+I", {"k": 10 + number, "v": "x"})])
    before = table.snapshots.latest_id()
    assert before is not None
    assert delete_some(table, random.Random(1))
    assert len(read_rows(table)) < 6
    assert isinstance(writer.executor, CompactLater)
    writer.executor.run()
    for number in table.snapshots.ids()[before:]:
        table.snapshots.delete(number)
    table.snapshots.write_latest_hint(before)
    writer.commit.commit_idle()
    assert len(read_rows(table)) == 6
