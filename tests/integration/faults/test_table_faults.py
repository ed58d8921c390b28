"""The job names the damage of a table, and never continues from a wrong version.

Each test damages the real table between two runs of the job and undoes the damage. The job then
ingests all messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stream_app import open_table
from stream_app.errors import CorruptFileError
from stream_app.table.opening import open_file_store_table
from tests.support.files.plain_object import plain_object
from tests.support.jobs.job_harness import JobHarness, change

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
COMPACTING = "table.options.num-sorted-run.compaction-trigger=2"


@contextmanager
def damaged(file: Path, damage: Callable[[bytes], bytes]) -> Iterator[None]:
    """A file with other bytes meanwhile."""
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    try:
        yield
    finally:
        file.write_bytes(whole)


def cut(whole: bytes) -> bytes:
    return whole[: len(whole) // 2]


def scrambled_bytes(whole: bytes) -> bytes:
    """Return bytes of the same length whose middle half differs."""
    quarter = len(whole) // 4
    middle = bytes(byte ^ 0x5A for byte in whole[quarter : 3 * quarter])
    return whole[:quarter] + middle + whole[3 * quarter :]


def rows(harness: JobHarness) -> dict[int, str]:
    rows = open_table(str(harness.table)).read().read_all().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["v"] for row in rows}


def a_table(harness: JobHarness, *, values: str) -> str:
    """A job that has written an epoch for each value; the topic."""
    topic = harness.topic()
    harness.configure(
        topic,
        table={"options.bucket": "1", "options.num-sorted-run.compaction-trigger": "9"},
    )
    for value in values:
        harness.send(topic, [change(key, value) for key in range(4)])
        harness.run()
    return topic


def test_a_truncated_latest_snapshot_stops_the_job_before_it_reads(harness: JobHarness) -> None:
    """A job that continued from the snapshot before it would write an epoch twice."""
    topic = a_table(harness, values="ab")
    latest_file = harness.table / "snapshot" / "snapshot-2"
    files = sorted(harness.table.rglob("*-*"))
    harness.send(topic, [change(9, "z")])
    for damage in (cut, lambda _: b""):
        with damaged(latest_file, damage):
            error = harness.fails()
            assert "snapshot" in error.splitlines()[0]
            assert f"  where: {latest_file}" in error
            assert "  to fix: restore the file from a backup" in error
            with pytest.raises(CorruptFileError, match="snapshot"):
                rows(harness)
            assert open_table(str(harness.table)).read(snapshot=1).read_all().num_rows == 4
        assert sorted(harness.table.rglob("*-*")) == files, "nothing was written"
    harness.run()
    assert rows(harness) == dict.fromkeys(range(4), "b") | {9: "z"}


def test_a_damaged_manifest_stops_the_job_and_publishes_nothing(harness: JobHarness) -> None:
    topic = a_table(harness, values="ab")
    snapshot = json.loads((harness.table / "snapshot" / "snapshot-2").read_text())
    manifest_list = harness.table / "manifest" / snapshot["deltaManifestList"]
    # Not that of the changelog, which a commit has no need to read.
    (meta,) = open_file_store_table(str(harness.table)).manifests.read_list(manifest_list.name)
    manifest = manifest_list.with_name(meta.file_name)
    harness.send(topic, [change(9, "z")])
    for file in (manifest_list, manifest):
        with damaged(file, scrambled_bytes):
            error = harness.fails()
            assert f"  where: {file}" in error
            assert "  to fix: " in error
            assert len(list(harness.table.glob("snapshot/snapshot-*"))) == 2
    harness.run()
    assert rows(harness) == dict.fromkeys(range(4), "b") | {9: "z"}


def test_a_damaged_data_file_stops_its_compaction_and_loses_nothing(harness: JobHarness) -> None:
    """The job takes in what comes; nobody gets rows from the file, not even its good half."""
    topic = a_table(harness, values="ab")
    data = max(harness.table.glob("bucket-0/data-*"), key=lambda file: file.stat().st_mtime_ns)
    with damaged(data, scrambled_bytes):
        harness.send(topic, [change(9, "z")])
        result = harness.run(COMPACTING)
        assert "failed" in result.output
        assert str(data) in result.output
        assert harness.snapshots()[-1] == "APPEND 2", "no compaction was published"
        with pytest.raises(CorruptFileError) as caught:
            rows(harness)
        assert caught.value.where == str(data)
        assert caught.value.fix
    harness.send(topic, [change(10, "y")])
    harness.run(COMPACTING)
    assert harness.snapshots()[-1] == "COMPACT 3"
    assert rows(harness) == dict.fromkeys(range(4), "b") | {9: "z", 10: "y"}


def test_a_clock_that_is_set_back_wrongs_no_row_and_deletes_nothing_too_early(
    harness: JobHarness,
) -> None:
    """The clock does not decide which row wins. The expiry keeps files that seem to be of the
    future until this time has passed, and still keeps no more snapshots than the maximum.
    """
    topic = a_table(harness, values="abc")
    ahead = 2 * 60 * 60 * 1000
    for file in harness.table.glob("snapshot/snapshot-*"):
        document = plain_object(file.read_text())
        file.write_text(json.dumps({**document, "timeMillis": document["timeMillis"] + ahead}))
    retained_snapshots = [
        "table.options.snapshot.num-retained.min=1",
        "table.options.snapshot.time-retained=1 ms",
    ]
    for value in "de":
        harness.send(topic, [change(key, value) for key in range(4)])
        harness.run(*retained_snapshots)
        assert rows(harness) == dict.fromkeys(range(4), value)
    times = [
        json.loads(file.read_text())["timeMillis"]
        for file in sorted(
            harness.table.glob("snapshot/snapshot-*"), key=lambda file: int(file.name.split("-")[1])
        )
    ]
    assert times != sorted(times), "the table tells that time went back"
    assert (harness.table / "snapshot" / "snapshot-1").exists()
    harness.send(topic, [change(key, "f") for key in range(4)])
    harness.run(*retained_snapshots, "table.options.snapshot.num-retained.max=2")
    assert rows(harness) == dict.fromkeys(range(4), "f")
    assert not (harness.table / "snapshot" / "snapshot-1").exists()
    assert harness.rows() == rows(harness), "Paimon reads the same"
