"""PyIceberg and Spark find tables whose latest version a Hive metastore names.

PyIceberg's client does not know Hive 4, so it is given the pointer that this metastore has. Nor
does Spark's, so Hive's own client stands before it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable, Table

from stream_app.catalog.catalog_registry import open_catalog
from stream_app.catalog.hive.hive_table import StorageField, TableField
from stream_app.catalog.hive.metastore_client import MetastoreMethod
from stream_app.catalog.hive.thrift_struct import Struct, inner_struct, text
from stream_app.catalog.identifier import Identifier
from stream_app.clock import SystemClock
from stream_app.model.schema.data_type import STRING, parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.planning.schema.schema_changes import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaChange,
)
from stream_app.table.iceberg.hive_pointer import open_catalog_table
from stream_app.table.job.table_job import TableJob
from stream_app.table.opening import open_file_store_table
from stream_app.table.schema.alter import alter_table
from stream_app.table.upkeep.rollback import plan_rollback, roll_back
from stream_app.table.upkeep.tags import create_tag, new_tag
from tests.support.jobs.killed_commit import kill_after
from tests.support.jobs.table_writer import by_content, read_rows
from tests.support.judges.iceberg_spark import IcebergSpark, why_no_iceberg_in_spark
from tests.support.judges.normal_rows import normal_rows
from tests.support.tables.catalog_table import (
    VECTORS,
    assert_a_late_writer_fails,
    assert_same,
    assert_same_after_each_epoch,
    catalog_table,
    commits_within,
    rows_in,
    silent_port,
)
from tests.support.tables.small_table import CompactHere, SmallTable
from tests.testbed.servers.hive_metastore import HiveMetastore

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]


@pytest.fixture(scope="module", params=[pytest.param("3.1.3", marks=pytest.mark.variant), "4.0.1"])
def metastore(request: pytest.FixtureRequest) -> Iterator[HiveMetastore]:
    with closing(HiveMetastore(request.param)) as server:
        yield server


@dataclass(frozen=True)
class Reader:
    """Finds tables of Iceberg by their names."""

    metastore: HiveMetastore

    def load_table(self, name: str, /) -> Table:
        if self.metastore.version == "3.1.3":
            return load_catalog("reader", type="hive", uri=self.metastore.uri).load_table(name)
        parameters = entry_of(self.metastore, name).text_map(TableField.PARAMETERS)
        return StaticTable.from_metadata(parameters["metadata_location"])


@pytest.fixture
def catalog(metastore: HiveMetastore) -> Reader:
    return Reader(metastore)


def a_hive_table(
    folder: Path, uri: str, columns: str, keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> SmallTable:  # fmt: skip
    chosen = {
        "metadata.iceberg.storage": "hive-catalog",
        "metadata.iceberg.uri": uri,
        **(options or {}),
    }
    return catalog_table(folder, columns, keys, chosen)


def entry_of(metastore: HiveMetastore, label: str) -> Struct:
    """Return the metastore's entry of a table."""
    database, _, name = label.partition(".")
    request = Struct({1: text(database), 2: text(name)})
    return (
        metastore.client()
        .call(MetastoreMethod("get_table_req"), inner_struct(request))
        .struct(0)
        .struct(1)
    )


def metadata_files(table: SmallTable) -> list[str]:
    database, _, name = table.table.label.partition(".")
    folder = Path(table.path).parents[1] / "iceberg" / database / name / "metadata"
    return sorted(path.name for path in folder.iterdir() if path.name.endswith(".metadata.json"))


def test_each_commit_moves_the_pointer(
    tmp_path: Path, metastore: HiveMetastore, catalog: Reader
) -> None:
    table = a_hive_table(tmp_path, metastore.uri, "id INT, name STRING")
    for number in range(3):
        table.commit(("+I", {"id": number, "name": None}), ("+I", {"id": number, "name": "b"}))
        assert_same(catalog, table)
    parameters = entry_of(metastore, table.table.label).text_map(TableField.PARAMETERS)
    newest = catalog.load_table(table.table.label).metadata_location
    assert parameters["metadata_location"] == newest
    assert newest.endswith("/v3.metadata.json")
    assert parameters["previous_metadata_location"].endswith("/v2.metadata.json")
    assert parameters["table_type"] == "ICEBERG"
    assert parameters["EXTERNAL"] == "TRUE"
    assert metadata_files(table) == ["v2.metadata.json", "v3.metadata.json"]


@pytest.mark.variant
@pytest.mark.spark
@pytest.mark.skipif(bool(why_no_iceberg_in_spark()), reason=why_no_iceberg_in_spark() or "")
def test_spark_finds_the_table_by_its_name(tmp_path: Path, metastore: HiveMetastore) -> None:
    table = a_hive_table(tmp_path, metastore.uri, "id BIGINT, v STRING", ["id"], VECTORS)
    with IcebergSpark(metastore.client_jars) as spark:
        spark.add_catalog("lake", {"type": "hive", "uri": metastore.uri})
        for number in range(2):
            table.commit(("+I", {"id": 0, "v": f"{number}"}), ("+I", {"id": number, "v": "x"}))
            table.compact()
            rows = normal_rows(spark.rows(f"SELECT * FROM lake.{table.table.label}"))
            assert by_content(rows) == by_content(read_rows(table.table))


def test_random_epochs_are_seen_in_the_metastore(
    tmp_path: Path, metastore: HiveMetastore, catalog: Reader, seed: int
) -> None:
    options = {**VECTORS, "snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}
    judged_table = a_hive_table(
        tmp_path, metastore.uri, "id BIGINT, v STRING, w DOUBLE", ["id"], options
    )
    assert_same_after_each_epoch(catalog, judged_table, seed)
    assert len(metadata_files(judged_table)) <= 3


def test_columns_tags_and_rollbacks_reach_the_metastore(
    tmp_path: Path, metastore: HiveMetastore, catalog: Reader
) -> None:
    table = a_hive_table(tmp_path, metastore.uri, "a INT, id INT, v INT", ["id"], VECTORS)
    table.commit(("+I", {"a": 0, "id": 1, "v": 10}))
    table.compact()
    latest_snapshot = table.table.snapshots.latest()
    assert latest_snapshot is not None
    assert create_tag(table.table, new_tag(table.table, "monday", latest_snapshot.snapshot_id))
    changes: list[SchemaChange] = [
        AddColumn(name="note", data_type=STRING, comment="of the clerk"),
        RenameColumn("v", "value"),
        DropColumn("a"),
    ]
    alter_table(table.table, changes)
    altered_table = SmallTable(open_file_store_table(table.path), epoch=1)
    altered_table.commit(("+I", {"id": 2, "value": 20, "note": "x"}))
    altered_table.compact()
    assert_same(catalog, altered_table)
    loaded_table = catalog.load_table(table.table.label)
    assert loaded_table.refs()["monday"].snapshot_id == latest_snapshot.snapshot_id
    columns = (
        entry_of(metastore, table.table.label)
        .struct(TableField.STORAGE)
        .structs(StorageField.COLUMNS)
    )
    assert [(column.text(1), column.text(2), column.text(3)) for column in columns] == [
        ("id", "int", ""), ("value", "int", ""), ("note", "string", "of the clerk")
    ]  # fmt: skip

    roll_back(
        altered_table.table,
        plan_rollback(altered_table.table, latest_snapshot),
        resets_consumers=False,
    )
    assert rows_in(catalog, altered_table).to_pylist() == [{"a": 0, "id": 1, "v": 10}]
    again = SmallTable(open_file_store_table(table.path), epoch=2)
    again.commit(("+I", {"id": 3, "value": 30, "note": None}))
    again.compact()
    assert_same(catalog, again)


def test_a_metastore_that_was_away_catches_up_and_its_version_stays_meanwhile(
    tmp_path: Path, metastore: HiveMetastore, catalog: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    table = a_hive_table(tmp_path, metastore.uri, "id INT")
    table.commit(("+I", {"id": 1}))
    away = SmallTable(
        table.table.with_options({"metadata.iceberg.uri": "thrift://127.0.0.1:9"}), epoch=1
    )
    for number in (2, 3, 4):
        away.commit(("+I", {"id": number}))
    assert "Iceberg's readers do not see snapshot 4" in caplog.text
    assert "no Hive metastore responds" in caplog.text
    assert rows_in(catalog, table).to_pylist() == [{"id": 1}]  # its file is still there
    back = SmallTable(open_file_store_table(table.path), epoch=4)
    for number in (5, 6):
        back.commit(("+I", {"id": number}))
        assert_same(catalog, back)
    assert len(metadata_files(table)) == 2  # the newest, and the one before


def test_killed_between_our_version_and_the_metastore_s_pointer(
    tmp_path: Path, metastore: HiveMetastore, catalog: Reader
) -> None:
    table = a_hive_table(tmp_path, metastore.uri, "id INT")
    table.commit(("+I", {"id": 0}))
    version = Path(catalog.load_table(table.table.label).metadata_location)
    following = version.with_name("v2.metadata.json")
    with silent_port() as port:
        silent = {"metadata.iceberg.uri": f"thrift://127.0.0.1:{port}"}
        kill_after(following, table.path, silent, 1)
    assert rows_in(catalog, table).to_pylist() == [{"id": 0}]
    TableJob(open_file_store_table(table.path), CompactHere).open("tester")  # a start
    assert catalog.load_table(table.table.label).metadata_location == str(following)
    assert_same(catalog, table)


def test_another_table_of_the_name_is_left_alone(
    tmp_path: Path, metastore: HiveMetastore, caplog: pytest.LogCaptureFixture
) -> None:
    other_table = a_hive_table(tmp_path / "theirs", metastore.uri, "id INT")
    other_table.commit(("+I", {"id": 7}))
    before = entry_of(metastore, other_table.table.label)
    names = {"metadata.iceberg.database": other_table.table.label.partition(".")[0]}
    a_hive_table(tmp_path, metastore.uri, "id INT", options=names).commit(("+I", {"id": 1}))
    assert "the Iceberg catalog has another table of this name" in caplog.text
    assert entry_of(metastore, other_table.table.label) == before


def test_a_paimon_table_of_the_same_metastore_keeps_its_entry(
    tmp_path: Path, metastore: HiveMetastore, catalog: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse = tmp_path / "wh"
    hive = open_catalog(metastore.catalog_options(warehouse), SystemClock())
    names = {"metadata.iceberg.database": f"lake_{uuid.uuid4().hex[:8]}"}
    for options in ({}, names):
        identifier = Identifier(f"shop_{uuid.uuid4().hex[:8]}", "orders")
        chosen = {"metadata.iceberg.storage": "hive-catalog", "metadata.iceberg.uri": metastore.uri}
        schema = new_table_schema(
            columns=parse_columns("id INT"),
            primary_keys=(),
            partition_keys=(),
            options={"bucket": "-1", **chosen, **options},
            time_ms=0,
        )
        assert hive.create_table(identifier, schema)
        place = hive.table(identifier)
        assert place is not None
        table = SmallTable(open_file_store_table(place.location))
        table.commit(("+I", {"id": 1}))
        assert hive.table(identifier) is not None  # still a Paimon table
        assert ("has another table of this name" in caplog.text) == (not options)
        caplog.clear()
    loaded_table = catalog.load_table(f"{names['metadata.iceberg.database']}.orders")
    assert loaded_table.scan().to_arrow().to_pylist() == [{"id": 1}]


def test_a_late_writer_does_not_take_the_pointer_back(
    tmp_path: Path, metastore: HiveMetastore, catalog: Reader
) -> None:
    table = a_hive_table(tmp_path, metastore.uri, "id INT")
    assert_a_late_writer_fails(table, open_catalog_table)
    assert_same(catalog, table)


def test_without_an_address_the_log_names_the_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = a_hive_table(tmp_path, "", "id INT")
    table.commit(("+I", {"id": 1}))
    assert "set metadata.iceberg.uri = thrift://HOST:PORT" in caplog.text
    assert read_rows(table.table) == [{"id": 1}]


def test_a_metastore_that_never_answers_holds_no_commit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "hive-site.xml").write_text(
        "<configuration><property><name>hive.metastore.client.socket.timeout</name>"
        "<value>300ms</value></property></configuration>"
    )
    folder = {"metadata.iceberg.hive-conf-dir": str(tmp_path)}
    with silent_port() as port:
        uri = f"thrift://127.0.0.1:{port}"
        table = a_hive_table(tmp_path, uri, "id INT", options=folder)
        assert commits_within(table, seconds=60)
    assert "no Hive metastore responds" in caplog.text
    assert read_rows(table.table) == [{"id": 1}]
