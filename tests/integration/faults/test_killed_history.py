"""A whole job keeps every version of a row, also when it is killed; Paimon's Java reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from random import Random
from typing import Any

import pytest

from tests.support.histories.auto_cdc import Event, Version, versions_of
from tests.support.jobs.ingest_process import IngestProcess
from tests.support.jobs.job_harness import JobHarness, Message

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]

START_MS = 1_704_067_200_000
TABLE = {
    "columns": "id BIGINT NOT NULL, v STRING",
    "primary-keys": ["id"],
    "options.bucket": "2",
    "options.history": "true",
    "options.changelog-producer": "input",
    "options.num-sorted-run.compaction-trigger": "3",
}
LATE_KEY = 100


def message(event: Event) -> Message:
    """The event as Debezium's message from MySQL."""
    row = {"id": event.key, "v": event.value}
    source = {"connector": "mysql", "db": "shop", "table": "t", "ts_ms": START_MS + event.sequence}
    op, before, after = ("d", row, None) if event.value is None else ("u", row, row)
    value = {"before": before, "after": after, "op": op, "source": source}
    return json.dumps({"id": event.key}).encode(), json.dumps(value).encode()


def random_events(random: Random, count: int, start: int) -> list[Event]:
    """Changes of few values: some are late, some at one moment, some equal to the one before."""
    moment, events = start, []
    for _ in range(count):
        moment += random.choice([0, 1, 7])
        value = random.choice([None, "x", "y", "z"])
        late = random.choice([0, 0, 0, 3, 40])
        events.append(Event(random.randrange(12), max(moment - late, 0), value))
    return events


def millis(text: str) -> int:
    """Milliseconds since the beginning of the history."""
    return round(datetime.fromisoformat(text).timestamp() * 1000) - START_MS


def versions_of_rows(rows: Sequence[dict[str, Any]]) -> list[Version]:
    """The table's rows as the judge has them."""
    versions = []
    for row in rows:
        assert row["is_current"] is (row["valid_to"] is None)
        start, end = (
            None if row[name] is None else millis(row[name]) for name in ("valid_from", "valid_to")
        )
        assert start is not None
        versions.append(Version(row["id"], start, end, row["v"]))
    return sorted(versions)


@pytest.mark.variant
def test_a_killed_job_leaves_the_versions_of_auto_cdc(harness: JobHarness, seed: int) -> None:
    random = Random(seed)
    events = random_events(random, 400, 0)
    events += [Event(LATE_KEY, 1000 * second, f"late {second}") for second in (1, 3, 9, 2, 7)]
    topic = harness.topic(map(message, events))
    harness.configure(topic, source={"max-offsets-per-trigger": 60}, table=TABLE)
    job = IngestProcess(harness.conf, harness.folder)
    job.start("--set", "stream.trigger=0 seconds")
    job.wait_for(
        lambda logged_events: [event for event in logged_events if event["event"] == "epoch"][1:]
    )
    job.kill()
    more = random_events(random, 200, events[399].sequence + 1)
    more.append(Event(LATE_KEY, 4000, "late 4"))
    harness.send(topic, map(message, more))
    harness.run("stream.trigger=availableNow")
    events += more

    rows = harness.java.read(harness.table)
    assert versions_of_rows(rows) == versions_of(events)
    # The changelog is exact: each row before is the one that was there.
    followed_rows: dict[tuple[int, Any], dict[str, Any]] = {}
    for plan in harness.java.changelog(harness.table):
        for kind, row in plan.changes:
            key = row["id"], row["valid_from"]
            if kind in ("-U", "-D"):
                assert followed_rows.pop(key) == row
            else:
                assert key not in followed_rows
                followed_rows[key] = row
    assert sorted(map(str, followed_rows.values())) == sorted(map(str, rows))
