"""Several writers and compactors work on one append table at once."""

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
from tests.support.jobs.table_writer import (
    CompactInCaller,
    CompactInThreads,
    TableWriter,
    read_rows,
)
from tests.support.tables.small_table import Change, small_table
from tests.support.tables.snapshot_chain import (
    check_chain,
    files_on_disk,
    files_that_snapshots_name,
)

pytestmark = pytest.mark.usefixtures("unsynced")
UNAWARE: dict[str, Any] = {"bucket": -1}
BUCKETED: dict[str, Any] = {"bucket": 2, "bucket-key": "k"}


@pytest.mark.parametrize(
    "options",
    [UNAWARE, pytest.param(BUCKETED, marks=pytest.mark.variant)],
    ids=["unaware", "buckets"],
)
def test_two_jobs_and_a_compactor_at_once(
    tmp_path: Path, seed: int, options: dict[str, Any]
) -> None:
    table = small_table(
        tmp_path / "db.db" / "t", "k INT, v STRING, dt STRING", (), ("dt",),
        compaction__min__file_num=3, commit__max_retries=1000, **options,
    ).table  # fmt: skip

    def job(name: str, first_key: int, write_only: str, seed: float) -> TableWriter:
        choose = random.Random(seed)
        writer = TableWriter(table.with_options({"write-only": write_only}), CompactInThreads, name)
        for epoch in range(25):
            changes: list[Change] = [
                ("+I", {"k": first_key + 100 * epoch + i, "v": name, "dt": choose.choice("ab")})
                for i in range(5)
            ]
            writer.write(changes)
            time.sleep(choose.random() / 50)
            writer.commit.commit_idle()
        writer.commit.compact_due()
        return writer

    def compact() -> StreamTableCommit:
        compactor = StreamTableCommit(
            table, "compactor", CompactInThreads(table), last_identifier=BATCH_COMMIT_IDENTIFIER
        )
        while not all_written.is_set():
            compactor.state.follow_and_load(None)
            compactor.compact_due()
        return compactor

    all_written = threading.Event()
    with ThreadPoolExecutor(3) as threads:
        compacting = threads.submit(compact)
        jobs = [
            threads.submit(job, "both", 0, "false", seed),
            threads.submit(job, "writes", 1_000_000, "true", seed + 1),
        ]
        writers = []
        try:
            writers = [job.result() for job in jobs]
        finally:
            all_written.set()
        compacting.result()
    expected = sorted((row["k"], row["v"]) for writer in writers for row in writer.model.rows())
    assert sorted((row["k"], row["v"]) for row in read_rows(table)) == expected
    check_chain(table)
    assert files_on_disk(table, "data-") == files_that_snapshots_name(table)


def test_once_ends_although_others_write(tmp_path: Path) -> None:
    """`stream-app compact` once: what came after it began is for the next time."""
    table = small_table(tmp_path / "db.db" / "t", "k INT, v STRING, dt STRING").table
    writer = TableWriter(table.with_options({"write-only": "true"}))

    def some() -> None:
        for _ in range(5):
            writer.write([("+I", {"k": 1, "v": "a", "dt": "b"})])

    some()
    executor = CompactInCaller(table)
    compact = executor.submit

    def busy(request):  # type: ignore[no-untyped-def]
        if len(executor.requests) < 30:
            some()
        return compact(request)

    executor.submit = busy  # type: ignore[method-assign]
    compactor = StreamTableCommit(
        table, "compactor", executor, last_identifier=BATCH_COMMIT_IDENTIFIER
    )
    compactor.compact_fully()
    assert len(executor.requests) < 30


def test_a_job_and_the_service_compact_one_table(tmp_path: Path, seed: int) -> None:
    """Nothing is arranged: epochs every 0.1 s, and `compact --follow` beside them."""
    table = small_table(tmp_path / "db.db" / "t", "k INT, v STRING, dt STRING").table
    all_written = threading.Event()

    def job() -> TableWriter:
        writer = TableWriter(table, CompactInThreads)
        for epoch in range(60):
            writer.write([("+I", {"k": 10 * epoch + i, "v": "x", "dt": "a"}) for i in range(5)])
            time.sleep(0.1)
        writer.commit.compact_due()
        return writer

    def compact() -> None:
        compactor = StreamTableCommit(
            table, "compactor", CompactInThreads(table), last_identifier=BATCH_COMMIT_IDENTIFIER
        )
        while not all_written.is_set():
            compactor.state.follow_and_load(None)
            compactor.compact_due()
            time.sleep(0.05)

    with ThreadPoolExecutor(2) as threads:
        compacting = threads.submit(compact)
        try:
            writer = threads.submit(job).result()
        finally:
            all_written.set()
        compacting.result()
    assert len(read_rows(table)) == len(writer.model.rows())
