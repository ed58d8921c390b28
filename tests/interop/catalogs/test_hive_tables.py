"""A Hive metastore describes our tables in the same way as those of Paimon's Java."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.catalog.catalog import Catalog
from stream_app.catalog.catalog_registry import open_catalog
from stream_app.catalog.hive.hive_table import DatabaseField, StorageField, TableField
from stream_app.catalog.hive.metastore_client import MetastoreMethod
from stream_app.catalog.hive.thrift_struct import (
    Struct,
    i16,
    i32,
    i64,
    inner_struct,
    struct_list,
    text,
    text_map,
)
from stream_app.catalog.identifier import Identifier
from stream_app.clock import SystemClock
from stream_app.errors import CommitError, UsageError
from stream_app.model.schema.data_type import STRING, RowType, parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.planning.schema.schema_changes import (
    AddColumn,
    SetColumnComment,
    SetOption,
    SetTableComment,
    UnsetOption,
)
from stream_app.table.opening import create_or_open_in_catalog, open_in_catalog
from stream_app.table.schema.alter import alter_table
from tests.support.judges.named_table import NamedTable
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import SmallTable
from tests.testbed.servers.hive_metastore import HiveMetastore

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
ORDERS = Identifier("shop", "orders")
COLUMNS = (
    "k INT NOT NULL, dt STRING NOT NULL, n INT NOT NULL, day DATE, flag BOOLEAN, t TINYINT, "
    "s SMALLINT, b BIGINT, f FLOAT, d DOUBLE, price DECIMAL(12, 3), code CHAR(4), "
    "long_code CHAR(300), "
    "name VARCHAR(70), long_name VARCHAR(70000), raw BINARY(4), bytes BYTES, clock TIME(3), "
    "at TIMESTAMP(6), tags ARRAY<STRING>, counts MAP<STRING, BIGINT>, "
    "part ROW<id INT, inner_part ROW<x DOUBLE>>"
)
KEYS = "k INT NOT NULL, dt STRING NOT NULL, n INT NOT NULL"
OPTIONS = {"bucket": "1", "metastore.partitioned-table": "true"}
# The client of a metastore that Paimon's Java has does not know Hive 4.
WITH_JAVA = pytest.mark.parametrize("metastore", ["3.1.3"], indirect=True)
CHANGING = {"transient_lastDdlTime", "totalSize", "numFiles", "stream-app.catalog"}


@pytest.fixture(scope="module", params=[pytest.param("3.1.3", marks=pytest.mark.variant), "4.0.1"])
def metastore(request: pytest.FixtureRequest) -> Iterator[HiveMetastore]:
    with closing(HiveMetastore(request.param)) as server:
        yield server


@pytest.fixture
def options(metastore: HiveMetastore, tmp_path: Path) -> dict[str, str]:
    metastore.drop_databases()
    return metastore.catalog_options(tmp_path / "warehouse")


def catalog_with(options: dict[str, str]) -> Catalog:
    return open_catalog(options, SystemClock())


def make_table(
    catalog: Catalog, identifier: Identifier = ORDERS, columns: str = COLUMNS
) -> SmallTable:
    schema = new_table_schema(
        columns=parse_columns(columns),
        primary_keys=("k", "dt", "n"),
        partition_keys=("dt", "n"),
        options=OPTIONS,
        time_ms=SystemClock().now_ms(),
    )
    return SmallTable(create_or_open_in_catalog(catalog, identifier, schema, SystemClock()))


def hive_table(metastore: HiveMetastore, identifier: Identifier = ORDERS) -> Struct:
    request = Struct({1: text(identifier.database), 2: text(identifier.table)})
    answer = metastore.client().call(
        MetastoreMethod("get_table_req", ("MetaException", "NoSuchObjectException")),
        inner_struct(request),
    )
    return answer.struct(0).struct(1)


def partition_names(metastore: HiveMetastore, table: str) -> list[str]:
    call = MetastoreMethod("get_partition_names", ("NoSuchObjectException", "MetaException"))
    return sorted(metastore.client().call(call, text("shop"), text(table), i16(-1)).texts(0))


def described_parts(table: Struct) -> dict[str, Any]:
    """Return the parts of a table's entry that Hive's engines read."""
    storage = table.struct(TableField.STORAGE)
    parameters = table.text_map(TableField.PARAMETERS)
    return {
        "type": table.text(TableField.TYPE),
        "retention": table.integer(TableField.RETENTION),
        "columns": [
            (column.text(1), column.text(2)) for column in storage.structs(StorageField.COLUMNS)
        ],
        "partitions": [(column.text(1), column.text(2)) for column in table.structs(8)],
        "formats": [storage.text(number) for number in (3, 4)],
        "serde": storage.struct(StorageField.SERDE).text(2),
        "parameters": {key: parameters[key] for key in parameters.keys() - CHANGING},
    }


@WITH_JAVA
@pytest.mark.parametrize(
    "all_properties", ["true", pytest.param("false", marks=pytest.mark.variant)]
)
def test_a_table_is_described_as_paimons_java_describes_it(
    metastore: HiveMetastore,
    options: dict[str, str],
    paimon_java: PaimonJava,
    all_properties: str,
) -> None:
    options = {**options, "sync-all-properties": all_properties}
    ours = make_table(catalog_with(options))
    java_table = NamedTable(catalog=options, database="shop", table="java")
    definition = json.loads((Path(ours.table.location) / "schema" / "schema-0").read_text())
    paimon_java.create(
        java_table, [(column["name"], column["type"]) for column in definition["fields"]],
        primary_keys=["k", "dt", "n"], partition_keys=["dt", "n"], options=OPTIONS,
    )  # fmt: skip
    java = hive_table(metastore, Identifier("shop", "java"))
    assert described_parts(hive_table(metastore)) == described_parts(java)
    location = java.struct(TableField.STORAGE).text(StorageField.LOCATION)
    assert ours.table.location == location.removeprefix("file:").replace("/java", "/orders")
    alter_table(ours.table, [AddColumn(name="more", data_type=STRING)])
    paimon_java.alter(java_table, ("add", "more", "STRING"))
    altered_parts = described_parts(hive_table(metastore, Identifier("shop", "java")))
    assert described_parts(hive_table(metastore)) == altered_parts
    assert altered_parts["columns"][-1] == ("more", "string")


def test_comments_are_in_the_metastore(metastore: HiveMetastore, options: dict[str, str]) -> None:
    catalog = catalog_with(options)
    schema = new_table_schema(
        columns=RowType(
            tuple(replace(column, description=f"a {column.name}") for column in parse_columns(KEYS))
        ),
        primary_keys=("k", "dt", "n"), partition_keys=("dt", "n"), options=OPTIONS,
        time_ms=SystemClock().now_ms(), comment="orders",
    )  # fmt: skip
    table = create_or_open_in_catalog(catalog, ORDERS, schema, SystemClock())
    of_columns = {"k": "a k", "dt": "a dt", "n": "a n"}
    assert comments(hive_table(metastore)) == ("orders", of_columns)
    more = AddColumn(name="more", data_type=STRING, comment="and more")
    alter_table(table, [SetTableComment("of a shop"), SetColumnComment("k", None), more])
    of_columns = {"dt": "a dt", "n": "a n", "more": "and more"}
    assert comments(hive_table(metastore)) == ("of a shop", of_columns)
    alter_table(open_in_catalog(catalog, ORDERS), [SetTableComment(None)])
    assert comments(hive_table(metastore)) == (None, of_columns)


def comments(table: Struct) -> tuple[str | None, dict[str, str]]:
    """The table's, and those of its columns that have one."""
    columns = [*table.struct(TableField.STORAGE).structs(StorageField.COLUMNS), *table.structs(8)]
    of_columns = {column.text(1): column.text(3) for column in columns if column.text(3)}
    return table.text_map(TableField.PARAMETERS).get("comment"), of_columns


@WITH_JAVA
def test_partitions_are_listed_as_paimons_java_lists_them(
    metastore: HiveMetastore, options: dict[str, str], paimon_java: PaimonJava
) -> None:
    catalog = catalog_with(options)
    ours = make_table(catalog, columns=KEYS)
    make_table(catalog, Identifier("shop", "java"), KEYS)
    values = [("a b/c", 3), ("", 4), ("=%", -1), ("ä", 20_000)]
    rows = [("+I", {"k": 1, "dt": dt, "n": n}) for dt, n in values]
    ours.commit(*rows[:2])
    ours.commit(*rows[1:])
    named_table = NamedTable(catalog=options, database="shop", table="java")
    paimon_java.write(named_table, rows, identifier=0)
    assert partition_names(metastore, "orders") == partition_names(metastore, "java")
    assert len(partition_names(metastore, "orders")) == 4


def test_the_catalog_keeps_fields_and_parameters_of_others(
    metastore: HiveMetastore, options: dict[str, str]
) -> None:
    """Fields that only a newer metastore has, and parameters of other tools."""
    catalog = catalog_with(options)
    ours = make_table(catalog)
    alter_table(ours.table, [SetOption("snapshot.num-retained.max", "20")])
    before = hive_table(metastore)
    parameters = {**before.text_map(TableField.PARAMETERS), "owner.team": "lake"}
    metastore.client().call(
        MetastoreMethod("alter_table_with_environment_context"), text("shop"), text("orders"),
        inner_struct(before.with_fields({TableField.PARAMETERS: text_map(parameters)})),
        inner_struct(Struct({1: text_map({})})),
    )  # fmt: skip
    assert parameters["snapshot.num-retained.max"] == "20"
    alter_table(ours.table, [UnsetOption("snapshot.num-retained.max")])
    after = hive_table(metastore)
    properties = after.text_map(TableField.PARAMETERS)
    assert properties["owner.team"] == "lake"
    assert "snapshot.num-retained.max" not in properties
    assert after.fields.keys() == before.fields.keys()


def test_a_table_of_hive_is_not_a_table_of_ours(
    metastore: HiveMetastore, options: dict[str, str]
) -> None:
    catalog = catalog_with(options)
    catalog.create_database("shop")
    storage = {
        1: struct_list([Struct({1: text("k"), 2: text("int")})]),
        3: text("org.apache.hadoop.mapred.TextInputFormat"),
        4: text("org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"),
        7: inner_struct(Struct({2: text("org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe")})),
    }
    table = {
        1: text("orders"), 2: text("shop"), 3: text("me"), 4: i32(0),
        7: inner_struct(Struct(storage)), 8: struct_list([]), 9: text_map({}),
        12: text("MANAGED_TABLE"),
    }  # fmt: skip
    metastore.client().call(MetastoreMethod("create_table"), inner_struct(Struct(table)))
    assert catalog.list_tables("shop") == []
    assert catalog.table(ORDERS) is None
    with pytest.raises(UsageError, match=r"shop\.orders of the metastore is not a Paimon table"):
        make_table(catalog)
    with pytest.raises(UsageError, match="upper-case"):
        make_table(catalog, Identifier("shop", "Orders"))


@WITH_JAVA
def test_locations_may_be_parameters(
    metastore: HiveMetastore,
    options: dict[str, str],
    paimon_java: PaimonJava,
    tmp_path: Path,
) -> None:
    options = {**options, "location-in-properties": "true"}
    (tmp_path / "warehouse" / "shop.db").mkdir(parents=True)
    ours = make_table(catalog_with(options), columns=KEYS)
    ours.commit(("+I", {"k": 1, "dt": "a", "n": 0}))
    table = hive_table(metastore)
    folder = table.text_map(TableField.PARAMETERS)["paimon_location"]
    assert folder == f"{tmp_path}/warehouse/shop.db/orders"
    database = metastore.client().call(MetastoreMethod("get_database"), text("shop")).struct(0)
    assert "paimon_location" in database.text_map(DatabaseField.PARAMETERS)
    named_table = NamedTable(catalog=options, database="shop", table="orders")
    assert [row["k"] for row in paimon_java.read(named_table)] == [1]


def test_the_lock_of_a_dead_process_stops_a_commit_until_it_ends(
    metastore: HiveMetastore, options: dict[str, str]
) -> None:
    ours = make_table(catalog_with({**options, "lock-acquire-timeout": "1 s"}), columns=KEYS)
    component = Struct({1: i32(3), 2: i32(2), 3: text("shop"), 4: text("orders")})
    request = Struct(
        {1: struct_list([component]), 3: text("dead"), 4: text("host"), 5: text("test")}
    )
    response = metastore.client().call(MetastoreMethod("lock"), inner_struct(request)).struct(0)
    assert response.integer(2) == 1, "the process has the lock, and dies"
    with pytest.raises(CommitError, match="another writer has held the table's lock"):
        ours.commit(("+I", {"k": 1, "dt": "a", "n": 0}))
    lock = inner_struct(Struct({1: i64(response.integer(1))}))
    metastore.client().call(MetastoreMethod("unlock"), lock)  # as the metastore does at some time
    again = SmallTable(open_in_catalog(catalog_with(options), ORDERS))
    again.commit(("+I", {"k": 1, "dt": "a", "n": 0}))
    assert again.table.snapshots.latest_id() == 1
