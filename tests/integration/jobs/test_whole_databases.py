"""One job writes a whole database; Paimon, PyPaimon and stream_app read the same rows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from stream_app.table.opening import open_file_store_table
from tests.support.databases.database_harness import DatabaseHarness, database, same
from tests.support.jobs.ingest_process import IngestProcess, read_events
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.messages.database_topic import (
    GARBAGE,
    HEARTBEAT,
    MARKER,
    a_row,
    change,
    creates,
    rows,
    with_time_of_day,
)

__all__ = ["database"]
pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.java, pytest.mark.slow]


def test_tables_are_made_and_filled_and_new_ones_are_taken(
    database: DatabaseHarness, paimon_java: PaimonJava, pypaimon: PyPaimonReader
) -> None:
    mixed_messages = [
        *creates("shop_a.orders", range(50)),
        *creates("shop_a.customers", range(5)),
        *creates("shop_a.tmp_x", range(5)),
        HEARTBEAT, MARKER, GARBAGE,
        change("shop_a.customers", a_row(2, "changed"), a_row(2)),
        change("shop_a.customers", a_row(3), op="d"),
        *creates("shop_a.orders", range(50, 60)),
    ]  # fmt: skip
    database.send("mixed", mixed_messages, is_new=True)
    database.send("b.orders", creates("shop_b.orders", range(100, 120)), is_new=True)
    database.send("b.items", creates("shop_b.items", range(7)), is_new=True)
    database.configure(
        {
            "excluding-tables": "tmp_.*",
            "excluding-dbs": "test.*",
            "table-prefix": "ods_",
            "table-mapping.items": "all_items",
            "options.bucket": 2,
            "options.changelog-producer": "input",
            "tables.all_items.options.bucket": 1,
        }
    )
    database.run()
    _first_tables_are_read_by_all(database, paimon_java, pypaimon)
    _new_tables_are_taken(database, paimon_java)
    status = {row["table"]: row for row in database.status()}
    assert sorted(status) == database.tables()
    assert {row["state"] for row in status.values()} == {"ready"}
    assert {row["lag"] for row in status.values()} == {0}
    assert status["all_items"]["epoch"] < status["ods_late"]["epoch"]
    check_run = database.tool("check", "--conf", str(database.conf))
    assert check_run.startswith("5 tables: nothing is wrong\n")
    assert check_run.count("up to where the table is") == 5
    database.send("b.items", creates("shop_b.items", range(7, 10)))
    lags = {row["table"]: row["lag"] for row in database.status()}
    assert lags.pop("all_items") == 3
    assert set(lags.values()) == {0}, "the others have nothing of that topic"


def _first_tables_are_read_by_all(
    database: DatabaseHarness, paimon_java: PaimonJava, pypaimon: PyPaimonReader
) -> None:
    customers = [row for row in rows(range(5)) if row["id"] not in (2, 3)] + [a_row(2, "changed")]
    expected_tables = {
        "all_items": rows(range(7)),
        "ods_customers": customers,
        "ods_orders": rows([*range(60), *range(100, 120)]),
    }
    assert database.tables() == sorted(expected_tables)
    for name, expected in expected_tables.items():
        same(database.rows(name), expected)
        same(paimon_java.read(database.table(name)), expected)
        same(normal_rows(pypaimon.read(database.table(name))), expected)
    assert paimon_java.types(database.table("ods_orders")) == [
        ("id", "BIGINT NOT NULL"), ("v", "STRING"), ("n", "INT")
    ]  # fmt: skip
    buckets = {
        name: open_file_store_table(str(database.table(name))).schema.options["bucket"]
        for name in expected_tables
    }
    assert buckets == {"all_items": "1", "ods_customers": "2", "ods_orders": "2"}
    assert [reason[:12] for reason in database.quarantine()] == ["is not JSON:"]


def _new_tables_are_taken(database: DatabaseHarness, paimon_java: PaimonJava) -> None:
    """A table in a topic that is known, a topic that is new, and a table without news."""
    database.send("mixed", [*creates("shop_a.late", range(9)), *creates("shop_a.orders", [60])])
    database.send("c.more", creates("shop_c.more", range(30)), is_new=True)
    database.run()
    same(database.rows("ods_late"), rows(range(9)))
    same(database.rows("ods_more"), rows(range(30)))
    same(database.rows("ods_orders"), rows([*range(61), *range(100, 120)]))
    same(paimon_java.read(database.table("ods_late")), rows(range(9)))
    assert open_file_store_table(str(database.table("all_items"))).snapshots.latest_id() == 1
    epochs = [event for event in read_events(database.events_file) if event["event"] == "epoch"]
    last = [event["table"] for event in epochs if event["epoch"] == epochs[-1]["epoch"]]
    assert sorted(last) == ["ods_late", "ods_more", "ods_orders"]
    assert len(database.quarantine()) == 1


def test_a_run_that_stores_nothing_does_not_look_successful(database: DatabaseHarness) -> None:
    database.send("a", creates("shop_a.orders", range(7)), is_new=True)
    database.configure({}, source={"format": "maxwell-json"})
    output = database.run(code=1).output
    assert "the messages look like those of the format 'debezium-json'" in output
    assert "all 7 records of this run are bad; none is in the table" in output
    assert len(database.quarantine()) == 7


@pytest.mark.parametrize("reader", ["native", pytest.param("spark", marks=pytest.mark.variant)])
def test_shards_stay_apart_when_they_are_divided(
    database: DatabaseHarness,
    paimon_java: PaimonJava,
    reader: str,
    request: pytest.FixtureRequest,
) -> None:
    if reader == "spark":
        request.getfixturevalue("spark_kafka_source")
    messages = [*creates("eu.orders", range(5), "eu"), *creates("us.orders", range(5), "us")]
    all_of_it = database.send("all", messages, is_new=True)
    database.configure(
        {"merge-shards": False, "primary-keys": ["n", "id"]},
        # Nothing is known when the job starts: both tables appear in an epoch.
        source={"reader": reader, "starting-offsets": json.dumps({all_of_it: {"0": -2}})},
    )
    database.run()
    assert database.tables() == ["eu_orders", "us_orders"]
    for shard in ("eu", "us"):
        same(database.rows(f"{shard}_orders"), rows(range(5), shard))
        same(paimon_java.read(database.table(f"{shard}_orders")), rows(range(5), shard))
        assert open_file_store_table(
            str(database.table(f"{shard}_orders"))
        ).schema.primary_keys == ("n", "id")


def test_a_table_gets_the_column_that_its_source_gets(
    database: DatabaseHarness, paimon_java: PaimonJava
) -> None:
    """The column comes in the middle of an epoch, and in a table that the same epoch makes.

    Each table has made columns, and lacks the rows that the filter drops.
    """
    hidden = change("shop.orders", a_row(99, "hidden"))
    database.send("all", [*creates("shop.orders", range(5)), hidden], is_new=True)
    database.configure(
        {
            "options.bucket": 1,
            "computed-column": ["tens=truncate(id, 10)", "x=upper(no_column)"],
            "metadata-column": ["table_name"],
            "metadata-column-prefix": "_",
            "filter": "v <> 'hidden 99'",
            "tables.others.computed-column": [],
        }
    )
    database.run()
    noted_rows = [{**a_row(key), "note": f"note {key}"} for key in (7, 8)]
    messages_by_table = [
        [*creates(name, [6]), *(change(name, row) for row in noted_rows)]
        for name in ("shop.orders", "shop.late")
    ]
    database.send(
        "all", [*messages_by_table[0], *messages_by_table[1], *creates("shop.others", range(3))]
    )
    database.run()
    old = [{**row, "note": None} for row in rows([*range(5), 6])]
    for name, plain in (("orders", [*old, *noted_rows]), ("late", [old[-1], *noted_rows])):
        expected = [{**row, "tens": 0, "_table_name": name} for row in plain]
        same(database.rows(name), expected)
        same(paimon_java.read(database.table(name)), expected)
    same(database.rows("others"), [{**row, "_table_name": "others"} for row in rows(range(3))])
    assert paimon_java.types(database.table("orders")) == [
        ("id", "BIGINT NOT NULL"), ("v", "STRING"), ("n", "INT"), ("tens", "BIGINT NOT NULL"),
        ("_table_name", "STRING NOT NULL"), ("note", "STRING"),
    ]  # fmt: skip
    assert open_file_store_table(str(database.table("orders"))).schemas.ids() == [0, 1]
    assert open_file_store_table(str(database.table("others"))).schemas.ids() == [0]


@pytest.mark.variant
def test_killed_between_the_commits_of_two_tables(database: DatabaseHarness) -> None:
    """Each table gets each epoch once, whichever commits precede the kill."""
    names = [f"t{number}" for number in range(12)]
    database.send("all", [], is_new=True)
    database.configure({"options.bucket": 1}, stream={"trigger": "0 seconds"})
    job = IngestProcess(database.conf, database.folder)
    keys: dict[str, int] = dict.fromkeys(names, 0)

    def snapshots() -> list[Path]:
        return list(database.folder.glob("warehouse/ods.db/*/snapshot/snapshot-*"))

    between = 0
    for _ in range(3):
        sent = [
            message
            for name in names
            for message in creates(f"shop.{name}", range(keys[name], keys[name] + 20))
        ]
        keys = {name: count + 20 for name, count in keys.items()}
        before = len(snapshots())

        def is_committed(_: object, before: int = before) -> bool:
            return len(snapshots()) > before

        job.start()
        database.send("all", sent)
        job.wait_for(is_committed, every=0.002)
        job.kill()
        counts = {
            name: len(database.rows(name)) if (database.table(name) / "snapshot").exists() else 0
            for name in names
        }
        between += len(set(counts.values())) > 1
    database.configure({"options.bucket": 1})
    database.run()
    for name in names:
        same(database.rows(name), rows(range(keys[name])))
    assert between, "no kill came between two commits"


def test_a_table_that_cannot_be_written_does_not_stop_the_others(database: DatabaseHarness) -> None:
    """A file lies where a bucket's folder should be; the table gets everything once it is gone."""
    database.send("all", [*creates("shop.a", range(9)), *creates("shop.b", range(9))], is_new=True)
    database.configure({"options.bucket": "1"})
    database.run()
    folder, moved_folder = database.table("a") / "bucket-0", database.table("a") / "kept"
    folder.rename(moved_folder)
    folder.write_text("in the way")
    for first in (20, 40):
        keys = range(first, first + 5)
        database.send("all", [*creates("shop.a", keys), *creates("shop.b", keys)])
        result = database.run(code=1)
        assert "1 of the job's tables are held back" in result.error
        assert "  a: the file system refused" in result.error
    keys_of_both = [*range(9), *range(20, 25), *range(40, 45)]
    same(database.rows("b"), rows(keys_of_both))
    command = ["status", "--conf", str(database.conf), "--json"]
    job = subprocess.run(
        [sys.executable, "-m", "stream_app", *command], capture_output=True, text=True, check=False
    )
    assert job.returncode == 1, job.stderr
    status = [json.loads(line) for line in job.stdout.splitlines()]
    assert [(row["table"], row["state"], row["lag"]) for row in status] == [
        ("a", "held", 20),
        ("b", "ready", 0),
    ]
    assert "the file system refused" in status[0]["reason"]

    folder.unlink()
    moved_folder.rename(folder)
    answer = database.tool("resume", "--conf", str(database.conf), "a")
    assert answer == "a: the job tries it again\n"
    database.run()
    same(database.rows("a"), rows(keys_of_both))
    assert database.tool("resume", "--conf", str(database.conf)) == "no table is held back\n"


@pytest.mark.variant
def test_the_warnings_of_a_job_outlive_its_log(database: DatabaseHarness) -> None:
    database.send("all", [with_time_of_day("shop.orders", 1)], is_new=True)
    database.configure({}, stream={"otlp-endpoint": "http://127.0.0.1:1"})
    for _ in range(2):  # a table's own warnings stay, and each start finds the others again
        output = database.run().output
        assert "stream.otlp-endpoint receives traces, but no metrics" in output
        warnings = [line for line in database.status() if "warning" in line]
        assert sorted(line["table"] for line in warnings) == ["", "ods.orders"]
        [of_table] = [line for line in warnings if line["table"]]
        assert of_table["warning"].startswith("column n is BIGINT, microseconds since midnight")
        assert "sync.inexact = 'string'" in of_table["fix"]
        for only in ((), ("orders",)):
            check_run = database.tool("check", *only, "--quick", "--conf", str(database.conf))
            assert f"warning: the table ods.orders: {of_table['warning']}" in check_run
            assert "warning: stream.otlp-endpoint receives traces, but no metrics" in check_run
        database.send("all", [with_time_of_day("shop.orders", 2)])


def test_two_jobs_share_the_tables_of_a_database(
    database: DatabaseHarness, paimon_java: PaimonJava
) -> None:
    names = [f"t{number}" for number in range(9)]
    of_one_topic, of_own_topics = names[:6], names[6:]
    database.send("mixed", [GARBAGE], is_new=True)
    for name in of_own_topics:
        database.send(name, [], is_new=True)
    for first in (0, 10):
        keys = range(first, first + 10)
        database.send(
            "mixed", [message for name in of_one_topic for message in creates(f"s.{name}", keys)]
        )
        for name in of_own_topics:
            database.send(name, creates(f"s.{name}", keys))
        tables_of_job = [_run_share(database, share) for share in ("1/2", "2/2")]
    assert set(tables_of_job[0]) | set(tables_of_job[1]) == set(database.tables()) == set(names)
    assert not set(tables_of_job[0]) & set(tables_of_job[1]), "a table belongs to one job"
    assert min(map(len, tables_of_job)) > 0
    users = defaultdict[str, set[str]](set)
    for name in names:
        same(paimon_java.read(database.table(name)), rows(range(20)))
        latest_snapshot = open_file_store_table(str(database.table(name))).snapshots.latest()
        assert latest_snapshot is not None
        users[latest_snapshot.commit_user].add(name)
    assert sorted(map(sorted, users.values())) == sorted(map(sorted, tables_of_job))
    assert len(database.quarantine()) == 1, "the first job alone has what names no table"

    of_second = str(database.folder / "checkpoint-2-of-2")
    refused_conf = database.configure({}, stream={"share": "1/3", "checkpoint": of_second})
    result = database.server.run(refused_conf, events=database.events_file)
    assert result.code == 2
    assert "the checkpoint was begun with stream.share = '2/2'" in result.output


def _run_share(database: DatabaseHarness, share: str) -> list[str]:
    """Run the job of a share to the end of the topics; its tables."""
    of_share = database.folder / f"checkpoint-{share.replace('/', '-of-')}"
    bucket_options = {f"tables.t{number}.options.bucket": 1 for number in range(9)}
    database.configure(
        {"options.bucket": 1, **bucket_options},
        stream={"share": share, "checkpoint": str(of_share)},
    )
    result = database.run()
    assert "no message belongs" not in result.output, "tables of the other share are not missed"
    shown = database.tool("status", "--conf", str(database.conf)).splitlines()
    assert shown[0].startswith(f"ods (share {share[0]} of 2)")
    return [row["table"] for row in database.status() if "table" in row]
