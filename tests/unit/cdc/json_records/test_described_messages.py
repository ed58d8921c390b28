"""Messages of Paimon's own tests describe a table, and the decoders give its rows.

What is expected stands in Paimon's `Kafka…SyncTableActionITCase`. A SET is text here.
"""

from __future__ import annotations

import datetime
import json
from decimal import Decimal

import pytest

from stream_app.message_format_registry import FORMATS
from stream_app.model.source.mapping_options import NO_MAPPING_OPTIONS
from stream_app.model.source.source_table import SourceTable
from tests.support.messages.debezium_messages import (
    a_format,
    captured_messages,
    reasons_of,
    rows_of,
)

FILE = "paimon_cdc_tests"
TEXT = {name: "STRING" for name in ("name", "description", "weight", "age", "address")}
EVOLVED = {"id": "STRING", **TEXT}
DRILL = "12-pack of drill bits with sizes ranging from #40 to #3"
DROPPED = [
    ("+I", "103", "12-pack drill bits", DRILL, None, None, None),
    ("+I", "104", "hammer", "12oz carpenter's hammer", "0.75", None, None),
]
PRODUCTS = [
    ("+I", "101", "scooter", "Small 2-wheel scooter", "3.14", None, None),
    ("+I", "102", "car battery", "12V car battery", "8.1", None, None),
    ("+I", "103", "12-pack drill bits", DRILL, "0.8", "18", None),
    ("+I", "104", "hammer", "12oz carpenter's hammer", "0.75", "24", None),
    ("+I", "105", "hammer", "14oz carpenter's hammer", "0.875", None, "Shanghai"),
    ("-D", "101", "scooter", "Small 2-wheel scooter", "3.14", None, None),
    ("-U", "105", "hammer", "14oz carpenter's hammer", "0.875", None, "Shanghai"),
    ("+U", "105", "hammer", "14oz carpenter's hammer", "0.875", None, "Beijing"),
    ("+I", "107", "rocks", "box of assorted rocks", "5.3", None, None),
]


parse_time = datetime.datetime.fromisoformat


def described_columns(name: str, topic: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """The columns and the key that the messages describe."""
    table = (
        FORMATS[name]
        .make_source_extractor({})
        .describe(captured_messages(FILE, topic), NO_MAPPING_OPTIONS)
    )
    assert table is not None
    return {column.name: str(column.data_type) for column in table.columns}, table.primary_keys


def stored_rows(name: str, topic: str) -> list[tuple[object, ...]]:
    """The rows in the table that the messages describe."""
    columns, keys = described_columns(name, topic)
    sql = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
    decoded_batch = a_format(sql, keys, name=name).decode(captured_messages(FILE, topic))
    assert reasons_of(decoded_batch) == {}
    return [row[1:] for row in rows_of(decoded_batch)]


@pytest.mark.parametrize(
    ("name", "topic", "key"),
    [
        ("maxwell-json", "maxwell.evolution", ("id",)),
        ("ogg-json", "ogg.evolution", ("id",)),
        ("aws-dms-json", "dms.evolution", ()),
    ],
)
def test_the_description_has_columns_that_messages_add_and_drop(
    name: str, topic: str, key: tuple[str, ...]
) -> None:
    columns, keys = described_columns(name, topic)
    assert keys == key
    assert columns == EVOLVED | {name: "STRING NOT NULL" for name in key}
    rows = stored_rows(name, topic)
    assert rows[: len(PRODUCTS)] == PRODUCTS
    assert rows[len(PRODUCTS) :] in ([], DROPPED)


def test_plain_rows_become_inserts() -> None:
    assert described_columns("json", "json.evolution") == (
        {"a": "STRING", "b": "STRING", "event_tm": "STRING", "c": "STRING"},
        (),
    )
    assert stored_rows("json", "json.evolution") == [
        ("+I", "a1", "b1", "2024-05-22 09:50:40", None),
        ("+I", "a2", "b2", "2024-05-23 10:20:56", None),
        ("+I", "a3", "b3", "2024-05-22 19:50:40", None),
        ("+I", "a4", "b4", "2024-05-23 15:20:56", "c4"),
    ]


def test_goldengate_events() -> None:
    rows = stored_rows("ogg-json", "ogg.event")
    assert [row[:2] for row in rows] == [
        ("+I", "101"), ("+I", "102"), ("+I", "103"), ("-U", "103"), ("+U", "103"), ("-D", "103"),
    ]  # fmt: skip
    assert [row[4] for row in rows[3:]] == ["5.1", "8.1", "8.1"]


def test_canal_events_become_rows_with_their_kinds() -> None:
    columns, keys = described_columns("canal-json", "canal.event")
    assert keys == ("_id",)
    assert columns == {
        "pt": "INT", "_id": "INT NOT NULL", "v1": "VARCHAR(20)", "v2": "BIGINT",
        "v3": "DECIMAL(8, 3)", "v4": "VARBINARY(10)", "v5": "FLOAT",
    }  # fmt: skip
    assert [row[:4] for row in stored_rows("canal-json", "canal.event")] == [
        ("+I", 1, 1, "one"),
        ("+I", 1, 2, "two"),
        ("+I", 2, 4, "four"),
        ("+I", 1, 9, "nine"),
        ("-U", 1, 2, "two"),
        ("+U", 1, 2, "second"),
        ("-D", 1, 1, "one"),
    ]


def test_canal_widens_types_as_the_source_did() -> None:
    columns, _ = described_columns("canal-json", "canal.evolution")
    assert columns["v1"] == "VARCHAR(20)"
    assert columns["v2"] == "BIGINT"
    assert columns["v5"] == "DOUBLE"
    last = stored_rows("canal-json", "canal.evolution")[-1]
    assert last == ("+U", 2, 4, "four", None, None, b"four.bin.long", 4.00000000004)


def test_every_type_of_mysql_in_canal() -> None:
    columns, _ = described_columns("canal-json", "canal.all_types")
    (row, _) = stored_rows("canal-json", "canal.all_types")
    cells = dict(zip(columns, row[1:], strict=True))
    square = "[[1,1],[2,1],[2,2],[1,2],[1,1]]"
    expected = {
        "_tinyint1": True,
        "_bool": False,
        "_tinyint_unsigned_zerofill": 3,
        "_bigint_unsigned": Decimal(20000000000),
        "_serial": Decimal(40000000000),
        "_float": 1.5,
        "_double_precision": 1.000111,
        "_numeric": Decimal("12345.110"),
        "_fixed": "123456789876543212345678987654321.110",
        "_date": datetime.date(2023, 3, 23),
        "_datetime3": parse_time("2023-03-23 14:30:05.123"),
        "_datetime_p2": parse_time("2023-03-24 14:30:05.120"),
        "_timestamp0": parse_time("2023-03-23 00:10:00"),
        "_bin": b"bytes",
        "_longblob": b"LONGBLOB  bytes test data",
        "_json": '{"a": "b"}',
        "_enum": "value1",
        "_year": 2023,
        "_time": datetime.time(10, 13, 23),
        "_point": '{"coordinates":[1,1],"type":"Point","srid":0}',
        "_polygon": f'{{"coordinates":[{square}],"type":"Polygon","srid":0}}',
        "_multipoint": '{"coordinates":[[1,1],[2,2]],"type":"MultiPoint","srid":0}',
        "_geometrycollection": '{"geometries":[{"type":"Point","coordinates":[10,10]},'
        '{"type":"Point","coordinates":[30,30]},'
        '{"type":"LineString","coordinates":[[15,15],[20,20]]}],'
        '"type":"GeometryCollection","srid":0}',
        "_set": "a,b",
    }
    assert {name: cells[name] for name in expected} == expected
    types = {"_tinyint1": "BOOLEAN", "_bigint_unsigned": "DECIMAL(20, 0)", "_year": "INT"}
    types |= {"_real": "DOUBLE", "_fixed": "STRING", "_timestamp": "TIMESTAMP(6)"}
    assert {name: columns[name] for name in types} == types


def test_a_table_that_follows_canal_sees_each_version_of_the_types() -> None:
    batch = captured_messages(FILE, "canal.evolution")
    columns = "pt INT, _id INT NOT NULL, v1 VARCHAR(10)"
    decode = a_format(
        columns, ("_id",), name="canal-json", options={"unknown-columns": "evolve"}
    ).decode
    versions = {
        json.dumps(json.loads(value)["mysqlType"])
        for value in batch["value"].to_pylist()
        if json.loads(value)["mysqlType"]
    }
    decoded_batch = decode(batch)
    assert len(decoded_batch.schemas) == len(versions) > 3
    firsts = [
        json.loads(batch["value"][row].as_py())["mysqlType"]
        for row in decoded_batch.schemas.values()
    ]
    assert {json.dumps(first) for first in firsts} == versions
    assert decode(batch.slice(0, 0)).schemas == {}


@pytest.mark.parametrize(
    ("name", "file", "topic", "least"),
    [
        ("canal-json", FILE, "canal.evolution", 4),
        ("debezium-json", "debezium_pg_schema", "pgs.shop.customers", 4),
        ("debezium-json", "debezium_pg_schema", "pgs.shop.orders", 1),
        ("debezium-json", "debezium_pg_plain", "pg.shop.customers", 1),
        ("maxwell-json", FILE, "maxwell.evolution", 2),
    ],
)
def test_each_version_of_a_table_has_the_messages_with_its_types(
    name: str, file: str, topic: str, least: int
) -> None:
    batch = captured_messages(file, topic)
    source_extractor = FORMATS[name].make_source_extractor({})
    assert source_extractor.find_versions is not None
    versions_read = source_extractor.find_versions(batch, NO_MAPPING_OPTIONS)
    assert len(versions_read) >= least
    versions = {
        index: version.table
        for version in versions_read
        for index in version.message_indices.tolist()
    }
    for index in range(batch.num_rows):
        alone = source_extractor.describe(batch.slice(index, 1), NO_MAPPING_OPTIONS)
        assert (alone is None) == (index not in versions)
        assert alone is None or types_of(alone) == types_of(versions[index])


def types_of(table: SourceTable) -> dict[str, str]:
    """Return the types that a source declares."""
    return {
        column.name: str(column.data_type.as_nullable())
        for column in table.columns
        if column.is_typed
    }
