"""Real jobs beside files of Spark's checkpoint that a power cut has left empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.job_bench import JobBench, change

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]
PER_EPOCH = 4


def newest(folder: Path) -> int:
    return max(int(path.name) for path in folder.glob("[0-9]*"))


def test_a_job_goes_on_and_loses_nothing(bench: JobBench) -> None:
    topic = bench.topic([change(k, "a") for k in range(3 * PER_EPOCH)])
    bench.configure(topic, source={"max-offsets-per-trigger": PER_EPOCH})
    bench.run()
    offsets, commits = bench.folder / "checkpoint/offsets", bench.folder / "checkpoint/commits"

    (commits / str(newest(commits))).write_bytes(b"")
    bench.send(topic, [change(100, "b")])
    bench.run()

    # The epoch is in the table, and Spark has not noted it as done.
    last = newest(offsets)
    (offsets / str(last)).write_bytes(b"")
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    bench.send(topic, [change(101, "c")])
    bench.run()

    # The epoch is begun, and in no table.
    (offsets / str(newest(offsets) + 1)).write_bytes(b"")
    bench.send(topic, [change(102, "d")])
    bench.run()

    wanted = {**dict.fromkeys(range(3 * PER_EPOCH), "a"), 100: "b", 101: "c", 102: "d"}
    assert bench.rows() == wanted
    assert sorted(bench.changes()) == sorted(("+I", key, value) for key, value in wanted.items())

    (bench.folder / "checkpoint/metadata").write_bytes(b"")
    error = bench.fails()
    assert "metadata of the checkpoint is empty, as after a power cut" in error
    assert "  to fix: " in error
