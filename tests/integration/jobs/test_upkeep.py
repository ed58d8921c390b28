"""The whole job while old versions of its table expire."""

from __future__ import annotations

import pytest

from stream_app.table.opening import open_table
from tests.support.jobs.job_bench import JobBench, change
from tests.support.tables.expiring_table import files_on_disk, files_that_are_named

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]


def test_old_snapshots_expire_and_the_job_still_knows_what_it_has_committed(
    bench: JobBench,
) -> None:
    topic = bench.topic(change(k % 10, str(k)) for k in range(18))
    bench.configure(
        topic,
        source={"max-offsets-per-trigger": 3},
        table={
            "options.num-sorted-run.compaction-trigger": "3",
            "options.snapshot.num-retained.min": "1",
            "options.snapshot.num-retained.max": "2",
        },
    )
    bench.run()
    rows = {k: str(10 + k) for k in range(8)} | {8: "8", 9: "9"}
    assert bench.rows() == rows
    epochs = len(bench.events("epoch"))
    assert epochs >= 6
    snapshots = bench.snapshots()
    assert len(snapshots) <= 3  # two, and the job's newest epoch when two compactions came after it
    # Its APPEND, or the COMPACT that was committed with it and tells the same of the job.
    assert {snapshot.split()[1] for snapshot in snapshots} >= {str(epochs - 1)}
    table = open_table(str(bench.table))
    assert files_on_disk(table) == files_that_are_named(table)

    bench.send(topic, [change(99, "new")])
    bench.run("table.options.snapshot.expire.execution-mode=async")
    assert bench.rows() == rows | {99: "new"}
    assert {snapshot.split()[1] for snapshot in bench.snapshots()} >= {str(epochs)}
    assert files_on_disk(table) == files_that_are_named(table)

    left = len(bench.snapshots())
    bench.run("table.options.snapshot.num-retained.max=1")  # nothing comes in
    assert len(bench.snapshots()) == 1 < left
    assert bench.rows() == rows | {99: "new"}
    assert files_on_disk(table) == files_that_are_named(table)
