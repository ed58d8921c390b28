"""Paimon reads our columns of type VARIANT, and we continue its tables, shredded ones too."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stream_app
from stream_app.app.cli.main import main
from stream_app.app.text.value_text import plain_texts
from stream_app.errors import UsageError
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.opening import create_or_open, open_file_store_table
from stream_app.variants.json_column import variants_of
from stream_app.variants.json_texts import variant_texts
from tests.support.interop.compacted_tables import compact_fully
from tests.support.jobs.table_writer import TableWriter, read_rows
from tests.support.judges.normal_rows import Row, normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.small_table import TIME_MS, SteppingClock

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
COLUMNS = "k INT NOT NULL, doc VARIANT, n STRING"
DOCUMENTS = [
    '{"customer":{"city":"Bonn","name":"Ä \\"B\\""},"id":17,"rate":12.50,"tags":["a","b",null]}',
    '{"customer":{"city":"Köln"},"id":3000000000,"rate":1,"other":{"z":1,"a":[{"b":true}]}}',
    '{"customer":"none","id":"x","rate":12.345678901234567890123456789012345678}',
    "[1,-129,40000,9223372036854775807,9223372036854775808,0.1,1e30,false]",
    '"' + "long " * 30 + '"',
    "null",
    "{}",
    "[]",
    json.dumps({f"name {number}": number for number in range(300)}),
    '{"": 1, "\U0001f600": 2, "\uffee": 3}',
]
SHREDDING = json.dumps(
    {
        "type": "ROW",
        "fields": [
            {
                "id": 0,
                "name": "doc",
                "type": {
                    "type": "ROW",
                    "fields": [
                        {
                            "id": 0,
                            "name": "customer",
                            "type": {
                                "type": "ROW",
                                "fields": [{"id": 0, "name": "city", "type": "STRING"}],
                            },
                        },
                        {"id": 1, "name": "id", "type": "BIGINT"},
                        {"id": 2, "name": "rate", "type": "DECIMAL(10, 2)"},
                        {"id": 3, "name": "tags", "type": {"type": "ARRAY", "element": "STRING"}},
                    ],
                },
            }
        ],
    }
)


def schema(**options: str) -> TableSchema:
    return new_table_schema(
        columns=parse_columns(COLUMNS),
        primary_keys=("k",),
        partition_keys=(),
        options={"bucket": "1", **options},
        time_ms=TIME_MS,
    )


def epoch_of(documents: list[str | None], first: int = 0) -> list[tuple[str, Row]]:
    return [
        ("+I", {"k": first + index, "doc": doc, "n": "x"}) for index, doc in enumerate(documents)
    ]


def encoded_changes(epoch: list[tuple[str, Row]]) -> list[tuple[str, Row]]:
    return [(kind, {**row, "doc": as_struct(row["doc"])}) for kind, row in epoch]


def as_struct(document: str | None) -> dict[str, bytes] | None:
    if document is None:
        return None
    values, _ = variants_of(pa.array([document]))
    struct: dict[str, bytes] = values[0].as_py()
    return struct


def value_of(text: str | None) -> Any:
    """A document by its JSON, with every digit of each number."""
    return None if text is None else json.loads(text, parse_float=Decimal)


def by_key(rows: list[Row]) -> dict[int, Any]:
    return {row["k"]: value_of(row["doc"]) for row in rows}


def our_documents(location: str | Path) -> dict[int, Any]:
    """The documents of a table by our reader, as its texts."""
    rows = read_rows(open_file_store_table(str(location)))
    column = pa.array([row["doc"] for row in rows], pa.struct([
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False),
    ]))  # fmt: skip
    texts = plain_texts(column).to_pylist()
    return {row["k"]: value_of(text) for row, text in zip(rows, texts, strict=True)}


def expected_documents(documents: list[str | None]) -> dict[int, Any]:
    return {index: value_of(document) for index, document in enumerate(documents)}


ALL: list[str | None] = [*DOCUMENTS, None]
OBJECTS: list[str | None] = [
    document for document in DOCUMENTS if document[0] == "{" and '"":' not in document
]
"""Paimon infers no schema of values of several kinds, and none with an empty name."""


def test_documents_are_encoded_as_paimon_encodes_them(
    paimon_java: PaimonJava, tmp_path: Path
) -> None:
    """Byte for byte, numbers and the order of names included."""
    table = create_or_open(str(tmp_path / "db.db" / "t"), schema(), SteppingClock())
    paimon_java.write(table.location, epoch_of(ALL), identifier=1)
    assert [row["doc"] for row in read_rows(table)] == [as_struct(document) for document in ALL]


@pytest.mark.parametrize("shredding", [None, SHREDDING, "inferred"])
def test_writers_and_compactions_take_turns(
    paimon_java: PaimonJava, tmp_path: Path, shredding: str | None
) -> None:
    table = create_or_open(
        str(tmp_path / "db.db" / "t"), schema(**{"write-only": "true"}), SteppingClock()
    )
    options: dict[str, Any] = {"write-only": "true"}
    if shredding == "inferred":
        options["variant.inferShreddingSchema"] = "true"
    elif shredding:
        options["parquet.variant.shreddingSchema"] = shredding  # 1.4.2 ignores the shorter name
    documents = OBJECTS if shredding == "inferred" else ALL
    writer = TableWriter(table)
    half = len(documents) // 2
    paimon_java.write(table.location, epoch_of(documents), identifier=1, options=options)
    file = next(Path(table.location).glob("bucket-0/data-*.parquet"))
    assert ("typed_value" in str(pq.read_schema(file))) == (shredding is not None)
    assert our_documents(table.location) == expected_documents(documents)
    writer.write(encoded_changes(epoch_of(documents[:half])))
    assert by_key(paimon_java.read(table.location)) == expected_documents(documents)
    compact_fully(replace(table, schema=schema()))
    assert (
        by_key(paimon_java.read(table.location))
        == our_documents(table.location)
        == expected_documents(documents)
    )
    paimon_java.write(table.location, epoch_of(documents), identifier=2, options=options)
    paimon_java.compact(table.location, options={**options, "write-only": False})
    assert (
        our_documents(table.location)
        == by_key(paimon_java.read(table.location))
        == expected_documents(documents)
    )


@pytest.mark.parametrize("shredding", [None, SHREDDING])
def test_conditions_on_members_of_what_paimon_wrote(
    paimon_java: PaimonJava,
    tmp_path: Path,
    shredding: str | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The columns are in one piece or shredded, and the reads precede and follow our compaction."""
    table = create_or_open(
        str(tmp_path / "db.db" / "t"), schema(**{"write-only": "true"}), SteppingClock()
    )
    options = {"parquet.variant.shreddingSchema": shredding} if shredding else {}
    for identifier, documents in enumerate((ALL, ALL[:2])):
        paimon_java.write(
            table.location, epoch_of(documents), identifier=identifier + 1, options=options
        )
    conditions = {
        "variant_get(doc, '$.customer.city') = 'Bonn'": [0],
        "try_variant_get(doc, '$.id', 'BIGINT') > 17": [1],
        "variant_get(doc, '$.rate', 'DOUBLE') < 12.4 AND k < 2": [1],
        "variant_get(doc, '$.tags[1]') = 'b' OR variant_get(doc, '$[0]', 'INT') = 1": [0, 3],
    }
    for _ in range(2):
        for where, keys in conditions.items():
            rows = PaimonTable(open_file_store_table(table.location)).read(
                columns=["k"], where=where
            )
            assert sorted(rows.read_all()["k"].to_pylist()) == keys, where
            assert_members_are_read(table.location, where, keys)
        compact_fully(replace(open_file_store_table(table.location), schema=schema()))
    columns = "k,variant_get(doc, '$.customer.city'), variant_get(doc, '$.n', 'DECIMAL(9, 2)')"
    words = ("--columns", columns, "--where", "k = 0", "--format", "csv")
    assert main(["read", table.location, *words]) == 0
    assert capsys.readouterr().out.splitlines()[1] == '0,"Bonn",'
    where = "variant_get(doc, '$.id', 'BIGINT') > 0"
    assert main(["read", table.location, "--where", where]) == 2
    assert "use try_variant_get, which returns null for such a member" in capsys.readouterr().err


def assert_members_are_read(location: str, where: str, keys: list[int]) -> None:
    """Functions in the place of columns, of versions, of differences and of changes."""
    city, number = "variant_get(doc, '$.customer.city')", "try_variant_get(doc, '$.id', 'BIGINT')"
    expected = {0: ("Bonn", 17), 1: ("Köln", 3_000_000_000), 3: (None, None)}
    reader = stream_app.open_table(location)
    newest = open_file_store_table(location).snapshots.latest_id()
    assert newest is not None
    tables = [
        reader.read(columns=[city, "k", number], where=where).read_all(),
        reader.read_incremental((0, newest), columns=[city, "k", number], where=where).read_all(),
    ]
    for rows in tables:
        assert rows.schema.names == [city, "k", number]
        assert rows.schema.types == [pa.string(), pa.int32(), pa.int64()]
        read_values = {row["k"]: (row[city], row[number]) for row in rows.to_pylist()}
        assert read_values == {key: expected[key] for key in keys}


def test_columns_that_are_not_functions_of_a_column_are_refused(tmp_path: Path) -> None:
    table = create_or_open(str(tmp_path / "db.db" / "t"), schema(), SteppingClock())
    reader = PaimonTable(table)
    for column, why in (
        ("variant_get(doc)", "expected a VARIANT, a 'path' and at most one 'type'"),
        ("variant_get(nothing, '$.a')", "cannot read the column: unknown column 'nothing'"),
        ("array_length(n)", "unknown column 'array_length(n)'"),
        ("variant_get(doc, '$.a') = 'x'", "expected the end"),
    ):
        with pytest.raises(UsageError, match=re.escape(why)):
            reader.read(columns=[column])


def test_files_are_described_alike(paimon_java: PaimonJava, tmp_path: Path) -> None:
    """The schema of the table, that of its files, and their statistics."""
    mine, theirs, javas = (tmp_path / "db.db" / name for name in ("mine", "theirs", "javas"))
    for path in (mine, theirs):
        create_or_open(str(path), schema(), SteppingClock())
    paimon_java.create(
        javas,
        [("k", "INT NOT NULL"), ("doc", "VARIANT"), ("n", "STRING")],
        primary_keys=["k"],
        options={"bucket": "1"},
    )
    types = [
        [field["type"] for field in json.loads((path / "schema/schema-0").read_bytes())["fields"]]
        for path in (mine, javas)
    ]
    assert types[0] == types[1]
    TableWriter(open_file_store_table(str(mine))).write(encoded_changes(epoch_of(ALL)))
    paimon_java.write(theirs, epoch_of(ALL), identifier=1)
    stored_files = [
        str(pq.read_metadata(next(path.glob("bucket-0/data-*.parquet"))).schema).splitlines()[2:]
        for path in (mine, theirs)
    ]
    assert stored_files[0] == stored_files[1]
    files = [paimon_java.read(f"{path}$files")[0] for path in (mine, theirs)]
    for statistic in ("null_value_counts", "min_value_stats", "max_value_stats"):
        assert files[0][statistic] == files[1][statistic]


def test_pypaimon_reads_the_column(pypaimon: PyPaimonReader, tmp_path: Path) -> None:
    table = create_or_open(str(tmp_path / "db.db" / "t"), schema(), SteppingClock())
    TableWriter(table).write(encoded_changes(epoch_of(ALL)))
    rows = normal_rows(pypaimon.read(table.location))
    assert [row["doc"] for row in rows] == [as_struct(document) for document in ALL]
    rust = normal_rows(pypaimon.read_by_rust(table.location))
    assert [row["doc"] for row in rust] == [as_struct(document) for document in ALL]


@pytest.mark.parametrize(
    ("columns", "keys", "options", "why"),
    [
        ("doc VARIANT NOT NULL, n INT", "doc", {}, "primary-keys names 'doc'"),
        ("k INT, doc VARIANT", "k", {"sequence.field": "doc"}, "sequence.field names 'doc'"),
        ("k INT, doc VARIANT", "k", {"file.format": "orc"}, "files of orc"),
        ("k INT, doc ARRAY<VARIANT>", "k", {}, "can be in no other type"),
        ("k INT, doc VARIANT", "k", {"metadata.iceberg.storage": "table-location"}, "do not mark"),
    ],
)
def test_a_schema_refuses_variants_where_they_cannot_be(
    columns: str, keys: str, options: dict[str, str], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        new_table_schema(
            columns=parse_columns(columns),
            primary_keys=(keys,),
            partition_keys=(),
            options={"bucket": "1", **options},
            time_ms=TIME_MS,
        )


def test_texts_have_members_by_name() -> None:
    column = pa.array([as_struct('{"b": 1.50, "a": [true, null, "x"]}')])
    assert variant_texts(column).to_pylist() == ['{"a":[true,null,"x"],"b":1.50}']


DAMAGED = [{"value": b"", "metadata": b""}, {"value": b"\x0c", "metadata": b"\x01\x00\x00"}]


@pytest.mark.parametrize("damaged_value", DAMAGED)
def test_bytes_that_are_not_a_variant_are_refused_and_named(
    tmp_path: Path, damaged_value: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """Overwrites refuse them; of those that another program wrote, `read` says so."""
    table = create_or_open(str(tmp_path / "db.db" / "t"), schema(), SteppingClock())
    with pytest.raises(UsageError, match="column 'doc' of type VARIANT: bytes of a VARIANT are"):
        PaimonTable(table).overwrite(pa.table({"k": [1], "doc": [damaged_value]}))
    TableWriter(table).write([("+I", {"k": 1, "doc": damaged_value, "n": "x"})])
    for form in ("table", "jsonl", "csv"):
        assert main(["read", table.location, "--format", form]) == 2
        assert "bytes of a VARIANT are damaged" in capsys.readouterr().err
    assert main(["read", table.location, "--columns", "k,n"]) == 0
