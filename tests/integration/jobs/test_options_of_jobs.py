"""A job checks a table's options before it writes, and reports those without effect."""

from __future__ import annotations

import pytest

from tests.support.jobs.job_harness import JobHarness, change

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]


def test_a_partition_without_a_time_is_a_bad_record_and_unused_options_are_reported(
    harness: JobHarness,
) -> None:
    topic = harness.topic([change(1, "20260131"), change(2, "2026-01-31"), change(3, "20260201")])
    harness.configure(
        topic,
        table={
            "primary-keys": ["id", "v"],
            "partition-keys": ["v"],
            "options.partition.timestamp-formatter": "yyyyMMdd",
            "options.partition.timestamp-format.strict": "true",
            "options.write.batch-size": "512",
            "options.local-merge-buffer-size": "64 mb",
        },
    )
    error = harness.fails()
    assert error.startswith("1 records could not be stored, 0 are allowed\n")
    assert "v=2026-01-31" in error
    result = harness.run(f"stream.quarantine={harness.folder}/quarantine")
    warnings = [line for line in result.output.splitlines() if "does not act on" in line]
    assert len(warnings) == 1
    assert warnings[0].endswith("does not act on: local-merge-buffer-size, write.batch-size")
    assert harness.rows() == {1: "20260131", 3: "20260201"}
    assert [line["offset"] for line in harness.quarantine()] == [1]
