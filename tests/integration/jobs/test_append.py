"""A job writes topics into tables without a primary key, compacts them, stops and continues."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.jobs.job_harness import JobHarness, change

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
NO_KEY = "table.primary-keys="
TABLE = {"options.bucket": "-1", "options.changelog-producer": "none"}
SOON = {"options.compaction.min.file-num": "3"}


def configure(harness: JobHarness, topic: str, stream: dict[str, Any], **options: str) -> None:
    harness.configure(
        topic,
        source={"max-offsets-per-trigger": 8},
        table={**TABLE, **SOON, **options},
        stream=stream,
    )


@pytest.mark.parametrize(
    "options",
    [{}, {"options.bucket": "2", "options.bucket-key": "id"}],
    ids=["unaware", "buckets"],
)
def test_a_topic_is_appended_and_compacted_over_a_restart(
    harness: JobHarness, options: dict[str, str]
) -> None:
    """The topic has three partitions, and each epoch a few messages; the table keeps equal rows."""
    first = [change(k % 20, "a") for k in range(40)]
    topic = harness.topic(first, partitions=3)
    harness.send(topic, [(b"tombstone", None)])
    configure(harness, topic, {}, **options)
    harness.run(NO_KEY)
    assert rows(harness) == sorted([(k % 20, "a") for k in range(40)])
    snapshots = harness.snapshots()
    assert any("COMPACT" in snapshot for snapshot in snapshots)
    harness.run(NO_KEY)
    assert harness.snapshots() == snapshots

    harness.send(topic, [change(k, "b") for k in range(30)])
    harness.run(NO_KEY)
    expected = sorted([(k % 20, "a") for k in range(40)] + [(k, "b") for k in range(30)])
    assert rows(harness) == expected
    epochs = len(harness.events("epoch"))
    appends = [snapshot for snapshot in harness.snapshots() if "APPEND" in snapshot]
    assert appends == [f"APPEND {number}" for number in range(epochs)]
    changes = harness.changes()
    assert {kind for kind, _, _ in changes} == {"+I"}
    assert sorted((key, value) for _, key, value in changes) == expected
    files = harness.java.files(harness.table)
    assert any(file["file_source"] == "COMPACT" for file in files)
    assert {file["total_buckets"] for file in files} == {2 if options else -1}


def rows(harness: JobHarness) -> list[tuple[int, str]]:
    return sorted((row["id"], row["v"]) for row in harness.java.read(harness.table))


def test_an_update_or_a_delete_stops_the_job_or_is_quarantined(harness: JobHarness) -> None:
    topic = harness.topic([change(1, "a"), change(1, "b", "a")])
    configure(harness, topic, {})
    error = harness.fails(NO_KEY)
    assert error.startswith("the record is an update, and the table has no primary key")
    assert f"  where: topic {topic}, partition 0, offset 1\n  to fix: give the table a key" in error
    assert not harness.java.snapshots(harness.table)

    harness.send(topic, [change(1, None, "b"), change(2, "c")])
    quarantine = str(harness.folder / "quarantine")
    configure(harness, topic, {"quarantine": quarantine, "non-insert-records": "quarantine"})
    harness.run(NO_KEY)
    assert rows(harness) == [(1, "a"), (2, "c")]
    assert [line["offset"] for line in harness.quarantine()] == [1, 2]
    assert [line["reason"].split(",")[0] for line in harness.quarantine()] == [
        "is an update",
        "is a delete",
    ]
