"""A whole job writes each kind of keyed table, and Paimon's Java reads its rows and changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.jobs.job_harness import JobHarness, Message

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
COLUMNS = "id BIGINT NOT NULL, v BIGINT"

KINDS: dict[str, dict[str, Any]] = {
    "lookup": {"changelog-producer": "lookup"},
    "vectors": {"deletion-vectors.enabled": True, "changelog-producer": "lookup"},
    "sums": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "aggregation.remove-record-on-delete": True,
        "changelog-producer": "lookup",
    },
    "full compaction": {"changelog-producer": "full-compaction"},
    "buckets as keys come": {
        "bucket": "-1",
        "dynamic-bucket.target-row-num": "2",
        "changelog-producer": "lookup",
    },
}


def change(key: int, before: int | None, after: int | None) -> Message:
    images = [None if v is None else {"id": key, "v": v} for v in (before, after)]
    op = "c" if before is None else "d" if after is None else "u"
    document = {"before": images[0], "after": images[1], "op": op}
    return json.dumps({"id": key}).encode(), json.dumps(document).encode()


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_writes_a_kind_of_table(harness: JobHarness, kind: str) -> None:
    topic = harness.topic([change(1, None, 5), change(2, None, 6), change(3, None, 7)])
    options = {f"options.{key}": value for key, value in KINDS[kind].items()}
    harness.configure(topic, table={"columns": COLUMNS, "options.bucket": "1", **options})
    harness.run()
    harness.send(topic, [change(1, 5, 8), change(3, 7, None), change(4, None, 1)])
    harness.run()
    harness.send(topic, [change(1, 8, 9), change(1, 9, 2)])
    harness.run()
    rows = {row["id"]: row["v"] for row in harness.java.read(harness.table)}
    assert rows == {1: 2, 2: 6, 4: 1}
    # Compactions of two buckets may come in two snapshots of an epoch.
    epoch_of = {
        snapshot["id"]: snapshot["commitIdentifier"]
        for snapshot in harness.java.snapshots(harness.table)
    }
    epochs: dict[int, list[tuple[str, int, int]]] = {}
    for plan in harness.java.changelog(harness.table):
        changes = epochs.setdefault(epoch_of[plan.snapshot], [])
        changes += [(kind, row["id"], row["v"]) for kind, row in plan.changes]
    assert [sorted(changes) for changes in epochs.values() if changes] == [
        [("+I", 1, 5), ("+I", 2, 6), ("+I", 3, 7)],
        [("+I", 4, 1), ("+U", 1, 8), ("-D", 3, 7), ("-U", 1, 5)],
        [("+U", 1, 2), ("-U", 1, 8)],
    ]


def test_a_key_without_the_partition_keeps_one_row(harness: JobHarness) -> None:
    """Deletes have the key alone, as with PostgreSQL's REPLICA IDENTITY DEFAULT."""

    def message(key: int, op: str, after: dict[str, str] | None) -> Message:
        before = {"id": key} if op == "d" else None
        row = None if after is None else {"id": key, **after}
        document = {"before": before, "after": row, "op": op}
        return json.dumps({"id": key}).encode(), json.dumps(document).encode()

    new, paid = {"state": "new"}, {"state": "paid"}
    topic = harness.topic([message(key, "c", new) for key in range(1, 6)])
    columns = {"columns": "id BIGINT NOT NULL, state STRING", "partition-keys": ["state"]}
    harness.configure(
        topic, table={**columns, "options.bucket": -1, "options.changelog-producer": "input"}
    )
    harness.run()
    changes = [message(1, "u", paid), message(2, "d", None), message(3, "u", paid)]
    changes += [message(3, "d", None), message(1, "u", new), message(6, "c", paid)]
    harness.send(topic, changes)
    harness.run()
    rows = sorted((row["id"], row["state"]) for row in harness.java.read(harness.table))
    assert rows == [(1, "new"), (4, "new"), (5, "new"), (6, "paid")]
    changelog = [
        sorted((kind, row["id"], row["state"]) for kind, row in plan.changes)
        for plan in harness.java.changelog(harness.table)
    ]
    assert [changes for changes in changelog if changes][1:] == [
        [
            *(("+I", 6, "paid"), ("+U", 1, "new"), ("+U", 1, "paid"), ("+U", 3, "paid")),
            *(("-D", 1, "new"), ("-D", 1, "paid"), ("-D", 2, "new")),
            *(("-D", 3, "new"), ("-D", 3, "paid")),
        ],
    ]
