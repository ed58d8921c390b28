"""Real jobs beside files of Spark's checkpoint that a power cut has left empty."""

from __future__ import annotations

import pytest

from tests.support.jobs.job_bench import JobBench, change

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.parametrize("name", ["metadata", "offsets/0", "commits/0"])
def test_a_job_stops_and_its_restored_checkpoint_goes_on(bench: JobBench, name: str) -> None:
    topic = bench.topic([change(k, "a") for k in range(4)])
    bench.configure(topic)
    bench.run()
    lost = bench.folder / "checkpoint" / name
    saved = lost.read_bytes()
    lost.write_bytes(b"")
    bench.send(topic, [change(9, "b")])
    before = bench.snapshots()

    error = bench.fails()

    assert f"{name} of the checkpoint is empty, as after a power cut" in error
    assert "  to fix: " in error
    assert bench.snapshots() == before
    lost.write_bytes(saved)
    bench.run()
    assert bench.rows() == {**dict.fromkeys(range(4), "a"), 9: "b"}
    assert len(bench.changes()) == 5
