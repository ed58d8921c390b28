"""Jobs create, alter, compact and read the tables of a catalog by their names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stream_app.app.cli.main import main
from stream_app.app.config.app_config import load_config
from stream_app.app.config.shown_job import shown_job
from stream_app.app.web.actions import Actions, RunState
from stream_app.app.web.job_site import JobSite
from stream_app.catalog.catalog_registry import open_catalog
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.clock import SystemClock
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.spark.read.data_source import NAME
from tests.support.databases.database_harness import DatabaseHarness, database, same
from tests.support.engines.stream_app_source import source
from tests.support.jobs.job_harness import JobHarness, change
from tests.support.judges.named_table import NamedTable
from tests.support.judges.paimon_java import PaimonJava
from tests.support.messages.database_topic import a_row, creates, rows
from tests.support.messages.database_topic import change as change_of
from tests.support.servers.rest_server import RestServer
from tests.testbed.servers.hive_metastore import HiveMetastore

__all__ = ["database", "source"]
pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
EVOLVING = {"debezium.unknown-columns": "evolve"}


@pytest.fixture(scope="module")
def metastore() -> Iterator[HiveMetastore]:
    with closing(HiveMetastore("3.1.3")) as server:
        yield server


@pytest.fixture(params=["jdbc", "hive", "rest"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Mapping[str, str]:
    """Options of a catalog, which the file of catalogs has as `lake`."""
    if request.param == "rest":
        server: RestServer = request.getfixturevalue("rest_server")
        options = server.warehouse(tmp_path / "warehouse").options
    elif request.param == "hive":
        metastore: HiveMetastore = request.getfixturevalue("metastore")
        metastore.drop_databases()
        options = metastore.catalog_options(tmp_path / "warehouse")
    else:
        options = {
            "metastore": "jdbc",
            "uri": f"jdbc:sqlite:{tmp_path}/catalog.db",
            "warehouse": str(tmp_path / "warehouse"),
            "lock.enabled": "true",
        }
    lines = [f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in options.items()]
    file = tmp_path / "catalogs.toml"
    file.write_text("".join(["[lake]\n", *lines]))
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    monkeypatch.setenv("STREAM_APP_CATALOGS", str(file))
    return options


def configure(harness: JobHarness, catalog: Mapping[str, str], topic: str, **table: str) -> None:
    harness.configure(
        topic,
        source=EVOLVING,
        table={"warehouse": catalog["warehouse"], **table},
        catalog={key: value for key, value in catalog.items() if key != "warehouse"},
    )


def with_note(key: int) -> tuple[bytes, bytes]:
    """A create of a row with one more column, whose type the message tells."""
    fields = [
        {"type": "int64", "optional": False, "field": "id"},
        {"type": "string", "optional": True, "field": "v"},
        {"type": "int32", "optional": True, "field": "note"},
    ]
    image = {"type": "struct", "fields": fields, "optional": True, "field": "after"}
    row = {"id": key, "v": "n", "note": key}
    value = {
        "schema": {"type": "struct", "fields": [image], "optional": False},
        "payload": {"before": None, "after": row, "op": "c"},
    }
    return json.dumps({"id": key}).encode(), json.dumps(value).encode()


def printed_text(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(list(words)) == 0, words
    return capsys.readouterr().out


def test_a_job_works_in_a_catalog(
    harness: JobHarness,
    catalog: Mapping[str, str],
    source: SparkSession,
    capsys: pytest.CaptureFixture[str],
) -> None:
    java_table = NamedTable(catalog=catalog, database="db", table="t")
    topic = harness.topic([change(1, "a"), change(2, "b")])
    configure(harness, catalog, topic)
    harness.run()
    tables = harness.java.list_tables(catalog)
    assert {name: tables[name] for name in tables if name != "default"} == {"db": ["t"]}
    assert open_catalog(catalog, SystemClock()).list_tables("db") == ["t"]
    printed_text(capsys, "check", "--conf", str(harness.conf))

    # Another run goes on, and the catalog has the column that it adds.
    harness.send(topic, [change(1, "c", "a"), change(2, None, "b"), with_note(3)])
    harness.run()
    names = [name for name, _ in harness.java.types(java_table)]
    assert names == ["id", "v", "note"]
    expected: list[dict[str, Any]] = [
        {"id": 1, "v": "c", "note": None},
        {"id": 3, "v": "n", "note": 3},
    ]
    assert sorted(harness.java.read(java_table), key=lambda row: row["id"]) == expected

    # Java commits through the catalog, and the job continues behind it.
    row = {"id": 4, "v": "java", "note": 4}
    harness.java.write(java_table, [("+I", row)], identifier=0, options={"write-only": True})
    harness.send(topic, [change(5, "e")])
    harness.run()
    expected += [row, {"id": 5, "v": "e", "note": None}]
    assert sorted(harness.java.read(java_table), key=lambda row: row["id"]) == expected

    # The commands, by the table's name.
    compact_run = harness.server.compact(Path("t"), "--conf", str(harness.conf), "--full")
    assert compact_run.code == 0, compact_run.output
    lines = printed_text(capsys, "read", "lake.db.t", "--format", "jsonl").splitlines()
    assert sorted(map(json.loads, lines), key=lambda row: row["id"]) == expected
    changes = printed_text(capsys, "changelog", "lake.db.t", "--format", "jsonl")
    assert len(changes.splitlines()) == 8
    assert "db.db/t" in printed_text(capsys, "inspect", "lake.db.t")
    printed_text(capsys, "check", "lake.db.t")
    assert "db.t" in printed_text(capsys, "status", "--conf", str(harness.conf))
    printed_text(capsys, "doctor", "--conf", str(harness.conf))

    # Spark, which gets a token by reference.
    reader_options = {f"catalog.{key}": value for key, value in catalog.items()}
    if "token" in catalog:
        (harness.folder / "token").write_text(catalog["token"])
        reader_options["catalog.token"] = f"${{file:{harness.folder}/token}}"
    frame = source.read.format(NAME).options(**reader_options).load("db.t")
    assert frame.where("id > 3").count() == 2

    # The page, whose compaction is a process that gets the catalog by its environment.
    if "token" in catalog:
        config = load_config(harness.conf, (), os.environ)
        checkpoint = JobFolder(config.stream.checkpoint, LocalFileIO())
        actions = Actions(JobSite(shown_job(config), checkpoint, SystemClock()), patience_s=120)
        ended_action = actions.begin("db.t", {"action": "compact"})
        assert ended_action.state is RunState.DONE, ended_action.lines


def test_a_table_with_another_schema_is_refused(
    harness: JobHarness, catalog: Mapping[str, str]
) -> None:
    java_table = NamedTable(catalog=catalog, database="db", table="t")
    harness.java.create(
        java_table, [("k", "INT NOT NULL")], primary_keys=["k"], options={"bucket": "1"}
    )
    topic = harness.topic([change(1, "a")])
    configure(harness, catalog, topic)
    error = harness.fails()
    assert "primary key" in error or "column" in error, error
    assert "to fix:" in error
    assert harness.java.snapshots(java_table) == []


@pytest.mark.parametrize("catalog", ["jdbc", "hive"], indirect=True)
def test_a_whole_database_is_in_a_catalog(
    database: DatabaseHarness,
    catalog: Mapping[str, str],
    paimon_java: PaimonJava,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def named(table: str) -> NamedTable:
        return NamedTable(catalog=catalog, database="ods", table=table)

    # Java has made one of the tables, which lacks a column.
    columns = [("id", "BIGINT NOT NULL"), ("v", "STRING")]
    paimon_java.create(named("taken"), columns, primary_keys=["id"], options={"bucket": "1"})
    sent = [*creates("shop.orders", range(5)), *creates("shop.taken", range(3))]
    database.send("all", sent, is_new=True)
    options = {key: value for key, value in catalog.items() if key != "warehouse"}
    sync = {"warehouse": catalog["warehouse"], "options.bucket": 1}
    database.configure(sync, catalog=options)
    database.run()
    same(paimon_java.read(named("orders")), rows(range(5)))
    same(paimon_java.read(named("taken")), rows(range(3)))

    # A column, a new table, and a commit of Java's in between.
    noted_row = {**a_row(7), "note": "a note"}
    row = {"id": 9, "v": "java", "n": 1}
    options = {"write-only": "true"}
    paimon_java.write(named("orders"), [("+I", row)], identifier=0, options=options)
    database.send("all", [change_of("shop.orders", noted_row), *creates("shop.late", range(4))])
    database.run()
    expected = [*({**old_row, "note": None} for old_row in [*rows(range(5)), row]), noted_row]
    same(paimon_java.read(named("orders")), expected)
    same(paimon_java.read(named("late")), rows(range(4)))
    assert paimon_java.list_tables(catalog)["ods"] == ["late", "orders", "taken"]
    lines = printed_text(capsys, "read", "lake.ods.late", "--format", "jsonl").splitlines()
    same([json.loads(line) for line in lines], rows(range(4)))
    assert {row["state"] for row in database.status()} == {"ready"}
    assert "nothing is wrong" in printed_text(capsys, "check", "lake.ods.orders")
    database.tool("doctor", "--conf", str(database.conf))
