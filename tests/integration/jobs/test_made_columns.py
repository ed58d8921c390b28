"""A whole job adds computed columns and filters rows; Java and PyPaimon read the result."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.jobs.job_harness import JobHarness, Message
from tests.support.judges.pypaimon_reader import PyPaimonReader

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]

DAY_MS = 86_400_000
NEW_YEAR_MS = 1_704_067_200_000
TABLE = {
    "columns": "id BIGINT NOT NULL, created TIMESTAMP(3), v STRING",
    "primary-keys": ["dt", "id"],
    "partition-keys": ["dt"],
    "computed-columns": ["dt=date_format(created, yyyyMMdd)", "short=substring(v, 0, 2)"],
    "metadata-columns": ["table_name", "op_ts", "offset"],
    "metadata-column-prefix": "__",
    "filter": "v <> 'draft'",
}


def row(key: int, day: int, v: str) -> dict[str, Any]:
    return {"id": key, "created": NEW_YEAR_MS + day * DAY_MS, "v": v}


def event(before: dict[str, Any] | None, after: dict[str, Any] | None) -> Message:
    """A change of the table `orders`, from MySQL, whose images are whole."""
    op = "d" if after is None else "c" if before is None else "u"
    source = {"connector": "mysql", "db": "shop", "table": "orders", "ts_ms": NEW_YEAR_MS}
    key = (before or after or {})["id"]
    value = {"before": before, "after": after, "op": op, "source": source}
    return json.dumps({"id": key}).encode(), json.dumps(value).encode()


def test_rows_move_and_leave_as_their_columns_say(
    harness: JobHarness, pypaimon: PyPaimonReader
) -> None:
    topic = harness.topic(
        [
            event(None, row(1, 0, "one")),
            event(None, row(2, 0, "two")),
            event(None, row(3, 0, "draft")),
            event(None, row(4, 0, "x")),  # too short for substring
            event(None, row(5, 0, "five")),
        ]
    )
    harness.configure(
        topic,
        source={"debezium.replica-identity": "full"},
        table=TABLE,
        stream={"quarantine": str(harness.folder / "quarantine")},
    )
    harness.run()
    harness.send(
        topic,
        [
            event(row(1, 0, "one"), row(1, 1, "uno")),  # to another partition
            event(row(2, 0, "two"), row(2, 0, "draft")),  # out of the filter
            event(row(3, 0, "draft"), row(3, 0, "three")),  # into it
            event(row(5, 0, "five"), None),
        ],
    )
    harness.run()

    read = pypaimon.read(harness.table).sort_by("id").to_pylist()
    assert [(row["id"], row["dt"], row["v"], row["short"], row["__offset"]) for row in read] == [
        (1, "20240102", "uno", "un", 5),
        (3, "20240101", "three", "th", 7),
    ]
    assert {row["__table_name"] for row in read} == {"orders"}
    assert {row["__op_ts"].timestamp() for row in read} == {NEW_YEAR_MS / 1000}
    in_java = harness.java.read(harness.table, columns=["id", "dt", "short"])
    assert sorted(in_java, key=lambda row: row["id"]) == [
        {"id": 1, "dt": "20240102", "short": "un"},
        {"id": 3, "dt": "20240101", "short": "th"},
    ]
    plans = harness.java.changelog(harness.table)
    changes = [(kind, row["id"], row["dt"]) for plan in plans for kind, row in plan.changes]
    assert sorted(changes) == sorted(
        [
            ("+I", 1, "20240101"),
            ("+I", 2, "20240101"),
            ("+I", 5, "20240101"),
            ("-U", 1, "20240101"),
            ("+U", 1, "20240102"),
            ("-D", 2, "20240101"),
            ("+I", 3, "20240101"),
            ("-D", 5, "20240101"),
        ]
    )
    (bad_record,) = harness.quarantine()
    assert (
        bad_record["reason"]
        == "column 'short' (substring(v, 0, 2)): \"x\" has fewer than 2 characters"
    )
