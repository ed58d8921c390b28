"""Real jobs meet files of Spark's checkpoint that a power cut has left empty."""

from __future__ import annotations

import pytest

from tests.support.jobs.job_harness import JobHarness, change

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.parametrize("name", ["metadata", "offsets/0", "commits/0"])
def test_a_job_stops_and_its_restored_checkpoint_goes_on(harness: JobHarness, name: str) -> None:
    topic = harness.topic([change(k, "a") for k in range(4)])
    harness.configure(topic)
    harness.run()
    lost = harness.folder / "checkpoint" / name
    saved_bytes = lost.read_bytes()
    lost.write_bytes(b"")
    harness.send(topic, [change(9, "b")])
    before = harness.snapshots()

    error = harness.fails()

    assert f"the checkpoint has empty files, as after a power cut: {name}" in error
    assert "  to fix: " in error
    assert harness.snapshots() == before
    lost.write_bytes(saved_bytes)
    harness.run()
    assert harness.rows() == {**dict.fromkeys(range(4), "a"), 9: "b"}
    assert len(harness.changes()) == 5
