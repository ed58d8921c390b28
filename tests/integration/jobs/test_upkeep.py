"""A whole job continues while old versions of its table expire."""

from __future__ import annotations

import pytest

from stream_app.table.opening import open_file_store_table
from tests.support.jobs.job_harness import JobHarness, change
from tests.support.tables.expiring_table import files_on_disk, files_that_are_named

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]


def test_old_snapshots_expire_and_the_job_still_knows_what_it_has_committed(
    harness: JobHarness,
) -> None:
    topic = harness.topic(change(k % 10, str(k)) for k in range(18))
    harness.configure(
        topic,
        source={"max-offsets-per-trigger": 3},
        table={
            "options.num-sorted-run.compaction-trigger": "3",
            "options.snapshot.num-retained.min": "1",
            "options.snapshot.num-retained.max": "2",
        },
    )
    harness.run()
    rows = {k: str(10 + k) for k in range(8)} | {8: "8", 9: "9"}
    assert harness.rows() == rows
    epochs = len(harness.events("epoch"))
    assert epochs >= 6
    snapshots = harness.snapshots()
    assert len(snapshots) <= 3  # two, and the job's newest epoch when two compactions came after it
    # Its APPEND, or the COMPACT that was committed with it and tells the same of the job.
    assert {snapshot.split()[1] for snapshot in snapshots} >= {str(epochs - 1)}
    table = open_file_store_table(str(harness.table))
    assert files_on_disk(table) == files_that_are_named(table)

    harness.send(topic, [change(99, "new")])
    harness.run("table.options.snapshot.expire.execution-mode=async")
    assert harness.rows() == rows | {99: "new"}
    assert {snapshot.split()[1] for snapshot in harness.snapshots()} >= {str(epochs)}
    assert files_on_disk(table) == files_that_are_named(table)

    snapshot_count = len(harness.snapshots())
    harness.run("table.options.snapshot.num-retained.max=1")  # nothing comes in
    assert len(harness.snapshots()) == 1 < snapshot_count
    assert harness.rows() == rows | {99: "new"}
    assert files_on_disk(table) == files_that_are_named(table)
