"""The whole job into each kind of keyed table: rows and changes, as Paimon's Java reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.job_bench import JobBench, Message

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
def test_a_job_writes_a_kind_of_table(bench: JobBench, kind: str) -> None:
    topic = bench.topic([change(1, None, 5), change(2, None, 6), change(3, None, 7)])
    options = {f"options.{key}": value for key, value in KINDS[kind].items()}
    bench.configure(topic, table={"columns": COLUMNS, "options.bucket": "1", **options})
    bench.run()
    bench.send(topic, [change(1, 5, 8), change(3, 7, None), change(4, None, 1)])
    bench.run()
    bench.send(topic, [change(1, 8, 9), change(1, 9, 2)])
    bench.run()
    rows = {row["id"]: row["v"] for row in bench.java.read(bench.table)}
    assert rows == {1: 2, 2: 6, 4: 1}
    # Compactions of two buckets may come in two snapshots of an epoch.
    epoch_of = {each["id"]: each["commitIdentifier"] for each in bench.java.snapshots(bench.table)}
    epochs: dict[int, list[tuple[str, int, int]]] = {}
    for plan in bench.java.changelog(bench.table):
        changes = epochs.setdefault(epoch_of[plan.snapshot], [])
        changes += [(kind, row["id"], row["v"]) for kind, row in plan.changes]
    assert [sorted(changes) for changes in epochs.values() if changes] == [
        [("+I", 1, 5), ("+I", 2, 6), ("+I", 3, 7)],
        [("+I", 4, 1), ("+U", 1, 8), ("-D", 3, 7), ("-U", 1, 5)],
        [("+U", 1, 2), ("-U", 1, 8)],
    ]
