"""A whole job writes a real topic into a table, and Paimon's Java library reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from tests.support.jobs.job_harness import JobHarness, change
from tests.support.judges.normal_rows import normal_rows, sorted_rows
from tests.support.messages.captured_tables import (
    ALL_TYPES,
    CUSTOMERS,
    DEFAULT_IDENTITY,
    FLAT,
    MARIA_CUSTOMERS,
    MARIA_TYPES,
    ORDERS,
)
from tests.support.messages.debezium_messages import FIXTURES, a_format, captured_messages
from tests.support.servers.hdfs_cluster import HdfsCluster

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
ID, KEYS_ONLY = ("id",), DEFAULT_IDENTITY
PHONE = ", phone STRING, score DOUBLE, level BIGINT"
MICROS = {"column.c_time.encoding": "epoch-micros"}


@dataclass(frozen=True)
class Captured:
    """A captured topic and the table that suits it."""

    file: str
    topic: str
    columns: str
    keys: Sequence[str] = ID
    options: Mapping[str, str] = field(default_factory=dict)


CAPTURED = [
    ("kafka", Captured("debezium_pg_plain", "pg.shop.customers", CUSTOMERS, ID, KEYS_ONLY)),
    ("files", Captured("debezium_pg_plain", "pg.shop.customers", CUSTOMERS, ID, KEYS_ONLY)),
    ("kafka", Captured("debezium_pg_schema", "pgs.shop.customers", CUSTOMERS, ID, KEYS_ONLY)),
    ("files", Captured("debezium_pg_flat", "pgf.shop.customers", CUSTOMERS + PHONE, ID, FLAT)),
    ("kafka", Captured("debezium_pg_schema", "pgs.shop.orders", ORDERS, ["order_id", "line"])),
    ("files", Captured("debezium_pg_schema", "pgs.shop.orders", ORDERS, ["order_id", "line"])),
    ("kafka", Captured("debezium_pg_plain", "pg.shop.all_types", ALL_TYPES, ID, MICROS)),
    ("files", Captured("debezium_pg_schema", "pgs.shop.all_types", ALL_TYPES)),
    ("kafka", Captured("debezium_pg_flat", "pgf.shop.all_types", ALL_TYPES, ID, FLAT)),
    ("kafka", Captured("debezium_pg_schema", "pgs.shop.documents", "id INT, body STRING")),
    ("files", Captured("debezium_pg_schema", "pgs.shop.no_key", "a INT, b STRING", ["a", "b"])),
    ("kafka", Captured("debezium_mariadb_plain", "mdb.shop.customers", MARIA_CUSTOMERS)),
    ("files", Captured("debezium_mariadb_plain", "mdb.shop.customers", MARIA_CUSTOMERS)),
    ("kafka", Captured("debezium_mariadb_plain", "mdb.shop.all_types", MARIA_TYPES)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "case"), CAPTURED, ids=[f"{case.topic}-{kind}" for kind, case in CAPTURED]
)
def test_captured_messages_become_rows(harness: JobHarness, kind: str, case: Captured) -> None:
    """The table has the decoded rows; unit tests compare these with the SQL."""
    options = {"truncate": "ignore", "unchanged-values": "quarantine", **case.options}
    messages = captured_messages(case.file, case.topic)
    decoded_batch = a_format(case.columns, case.keys, options=options).decode(messages)
    source: dict[str, Any] = {f"debezium.{key}": value for key, value in options.items()}
    topics = []
    if kind == "kafka":
        topics = [harness.topic(partitions=3)]
        for record in messages.to_pylist():
            pair = (record["key"], record["value"])
            harness.send(topics[0], [pair], partition=record["partition"])
    else:
        lines = (FIXTURES / f"{case.file}.jsonl").read_text(encoding="utf-8").splitlines()
        texts = [line for line in lines if json.loads(line)["topic"] == case.topic]
        folder = harness.folder / "messages"
        folder.mkdir()
        (folder / "1.jsonl").write_text("\n".join(texts), encoding="utf-8")
        source |= {"kind": "files", "path": str(folder)}
    harness.configure(
        *topics,
        source=source,
        table={"columns": case.columns, "primary-keys": case.keys},
        stream={"quarantine": str(harness.folder / "quarantine")},
    )
    harness.run()
    rows = harness.java.read(harness.table)
    assert sorted_rows(rows) == sorted_rows(_rows(decoded_batch.changes.rows, case.keys))
    plans = harness.java.changelog(harness.table)
    changes = [{"_kind": kind, **row} for plan in plans for kind, row in plan.changes]
    assert sorted_rows(changes) == sorted_rows(_changes(decoded_batch.changes.rows))
    assert len(harness.quarantine()) == decoded_batch.bad_records.num_rows


def _changes(changes: pa.RecordBatch) -> list[dict[str, Any]]:
    kinds = ["+I", "-U", "+U", "-D"]
    values = normal_rows(pa.Table.from_batches([changes]).drop_columns(["_VALUE_KIND"]))
    numbers = changes.column("_VALUE_KIND").to_pylist()
    return [{"_kind": kinds[number], **row} for number, row in zip(numbers, values, strict=True)]


def _rows(changes: pa.RecordBatch, keys: Sequence[str]) -> list[dict[str, Any]]:
    """The last change of each key, unless it is a delete."""
    last = {tuple(change[key] for key in keys): change for change in _changes(changes)}
    remaining = (change for change in last.values() if change["_kind"] in ("+I", "+U"))
    return [
        {name: value for name, value in change.items() if name != "_kind"} for change in remaining
    ]


def test_compactions_are_drained_and_a_second_run_commits_nothing(harness: JobHarness) -> None:
    """The topic has three partitions. Each epoch has a few messages, and compactions run beside."""
    topic = harness.topic(
        [change(k, "a") for k in range(30)]
        + [change(k, "b", "a") for k in range(20)]
        + [change(k, None, "b") for k in range(10)],
        partitions=3,
    )
    harness.configure(
        topic,
        source={"max-offsets-per-trigger": 6},
        table={"options.num-sorted-run.compaction-trigger": "3"},
    )
    harness.run()
    rows = {k: "b" for k in range(10, 20)} | {k: "a" for k in range(20, 30)}
    assert harness.rows() == rows
    changes_of_key: dict[int, list[str]] = {}
    for kind, key, value in harness.changes():
        changes_of_key.setdefault(key, []).append(kind + value)
    inserted_rows, updated_rows, deleted_rows = ["+Ia"], ["-Ua", "+Ub"], ["-Db"]
    assert changes_of_key == {
        **{key: inserted_rows + updated_rows + deleted_rows for key in range(10)},
        **{key: inserted_rows + updated_rows for key in range(10, 20)},
        **{key: inserted_rows for key in range(20, 30)},
    }
    snapshots = harness.snapshots()
    epochs = len(harness.events("epoch"))
    assert epochs >= 10
    appends = [snapshot for snapshot in snapshots if "APPEND" in snapshot]
    assert appends == [f"APPEND {epoch}" for epoch in range(epochs)]
    assert any("COMPACT" in snapshot for snapshot in snapshots)
    _check_drained(harness, trigger=3)

    harness.run()
    assert harness.snapshots() == snapshots
    harness.send(topic, [change(99, "new")])
    harness.run()
    assert harness.rows() == rows | {99: "new"}
    assert f"APPEND {epochs}" in harness.snapshots()


def _check_drained(harness: JobHarness, trigger: int) -> None:
    """No bucket has more sorted runs than the trigger, so no compaction is due."""
    runs: dict[int, set[Any]] = {}
    for file in harness.java.files(harness.table):
        run = file["file_name"] if file["level"] == 0 else file["level"]
        runs.setdefault(file["bucket"], set()).add(run)
    assert all(len(of_bucket) <= trigger for of_bucket in runs.values()), runs


def test_without_changelog_and_with_the_options_of_compaction(harness: JobHarness) -> None:
    """changelog-producer none, prepare-commit.wait-compaction, then write-only in it."""
    topic = harness.topic(change(k, "a") for k in range(20))
    harness.configure(
        topic,
        source={"max-offsets-per-trigger": 4},
        table={
            "options.changelog-producer": "none",
            "options.num-sorted-run.compaction-trigger": "2",
            "options.prepare-commit.wait-compaction": "true",
        },
    )
    harness.run()
    assert harness.rows() == dict.fromkeys(range(20), "a")
    # Each epoch has waited for the compactions that it began, and committed them itself.
    assert harness.events("idle_commit") == []
    assert all(event["compactions_running"] == 0 for event in harness.events("epoch"))
    compacts = [snapshot for snapshot in harness.snapshots() if "COMPACT" in snapshot]
    assert compacts
    assert not list(harness.table.glob("bucket-*/changelog-*"))

    harness.send(topic, (change(k, "b") for k in range(20)))
    harness.run("table.options.write-only=true")
    assert harness.rows() == dict.fromkeys(range(20), "b")
    later = harness.snapshots()
    assert [snapshot for snapshot in later if "COMPACT" in snapshot] == compacts


def test_two_topics_and_a_pattern_go_into_one_table(harness: JobHarness) -> None:
    first = harness.topic([change(1, "one")], partitions=3)
    second = harness.topic([change(2, "two")])
    harness.configure(first, second, source={"merge-shards": True})
    harness.run()
    assert harness.rows() == {1: "one", 2: "two"}
    (event,) = [event for event in harness.events("progress") if event["messages"]]
    assert set(event["end_offsets"]) == {first, second}

    harness.folder /= "pattern"
    harness.configure(source={"topic-pattern": f"({first}|{second})", "merge-shards": True})
    harness.run()
    assert harness.rows() == {1: "one", 2: "two"}


def test_a_table_on_hdfs_is_ingested(harness: JobHarness, hdfs: HdfsCluster) -> None:
    warehouse = hdfs.new_folder()
    topic = harness.topic([change(key, "a") for key in range(20)], partitions=2)
    harness.configure(topic, table={"warehouse": warehouse})
    harness.run()
    harness.send(topic, [change(3, "b", "a"), change(4, None, "a")])
    harness.run()
    table_path = f"{warehouse}/db.db/t"
    rows = harness.java.read(table_path)
    expected = (dict.fromkeys(range(20), "a") | {3: "b"}).items() - {(4, "a")}
    assert {(row["id"], row["v"]) for row in rows} == expected
    kinds = [snapshot["commitKind"] for snapshot in harness.java.snapshots(table_path)]
    assert kinds == ["APPEND"] * 2
