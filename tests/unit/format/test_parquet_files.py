"""Data files keep their rows, and have the documented footer."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stream_app.errors import CorruptFileError
from stream_app.format.arrow_schema import arrow_schema, key_value_file_schema
from stream_app.format.column_stats import FooterStats, value_stats
from stream_app.format.data_files.file_batches import BATCH_SIZE, conformed_batch
from stream_app.format.data_files.parquet_reader import check_footer
from stream_app.format.data_files.parquet_writer import parquet_writer
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from tests.support.tables.read_batches import read_batches
from tests.unit.format.vectors import row_type

COARSE = "ms TIMESTAMP(3), us TIMESTAMP(6), ltz TIMESTAMP_LTZ(3)"
COLUMNS = (
    "id BIGINT, t TINYINT, d9 DECIMAL(9,2), d18 DECIMAL(18,2), d38 DECIMAL(38,2), day DATE, "
    f"clock TIME(0), s STRING, b BYTES, f FLOAT, {COARSE}"
)


def file_schema(columns: str = COLUMNS, *, thin: bool = False) -> pa.Schema:
    table = new_table_schema(
        columns=parse_columns(columns),
        primary_keys=("id",),
        partition_keys=(),
        options={"bucket": "1"},
        time_ms=0,
    )
    return key_value_file_schema(table, is_thin=thin)


def rows_of(schema: pa.Schema, row_count: int) -> pa.RecordBatch:
    columns = []
    for field in schema:
        numbers: pa.Array = pa.array([index % 100 for index in range(row_count)], pa.int64())
        if pa.types.is_decimal(field.type):
            numbers = numbers.cast(pa.decimal128(21, 2))
        elif pa.types.is_date32(field.type) or pa.types.is_time32(field.type):
            numbers = numbers.cast(pa.int32())
        elif pa.types.is_binary(field.type):
            numbers = numbers.cast(pa.string())
        columns.append(numbers.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def write_file(batch: pa.RecordBatch, **options: str) -> bytes:
    sink = io.BytesIO()
    settings = {key.replace("_", ".", 1).replace("_", "-"): text for key, text in options.items()}
    with parquet_writer(sink, batch.schema, CoreOptions(settings)) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def read(data: bytes, schema: pa.Schema) -> pa.Table:
    batches = list(read_batches(io.BytesIO(data), schema.names, 1_000))
    return pa.Table.from_batches([conformed_batch(batch, schema) for batch in batches], schema)


@pytest.mark.parametrize("thin", [False, True])
def test_rows_survive(thin: bool) -> None:
    schema = file_schema(thin=thin)
    batch = rows_of(schema, 2_500)
    assert read(write_file(batch), schema) == pa.Table.from_batches([batch])


def test_rows_survive_beside_nanoseconds() -> None:
    schema = file_schema(COLUMNS + ", ns TIMESTAMP(9), ltz9 TIMESTAMP_LTZ(9)")
    batch = rows_of(schema, 10)
    data = write_file(batch)
    assert read(data, schema) == pa.Table.from_batches([batch])
    physical = {c.name: c.physical_type for c in pq.ParquetFile(io.BytesIO(data)).schema}
    assert {physical[name] for name in ("ns", "ltz9")} == {"INT96"}
    assert {physical[name] for name in ("ms", "us", "ltz")} == {"INT64"}


def test_each_timestamp_is_described_as_without_nanoseconds() -> None:
    """PyPaimon believes the file, Java the table."""
    columns = f"id INT, c TIMESTAMP(0), {COARSE}, l TIMESTAMP_LTZ(0), m TIMESTAMP_LTZ(6)"
    plain, beside = file_schema(columns), file_schema(columns + ", n TIMESTAMP(9)")
    plain_columns, beside_columns = (
        {c.name: str(c) for c in pq.ParquetFile(io.BytesIO(write_file(rows_of(data, 3)))).schema}
        for data in (plain, beside)
    )
    assert beside_columns.pop("n")
    assert beside_columns == plain_columns
    schema = pq.ParquetFile(io.BytesIO(write_file(rows_of(beside, 3)))).schema_arrow
    assert [field.metadata for field in schema] == [field.metadata for field in beside]
    assert [field.nullable for field in schema] == [field.nullable for field in beside]


def test_statistics_beside_nanoseconds_are_those_without() -> None:
    batch = rows_of(file_schema(COLUMNS + ", ns TIMESTAMP(9)"), 50)
    names = ("ms", "us", "ltz")
    types = {field.name: field.data_type for field in parse_columns(COLUMNS)}
    statistics = [
        value_stats(
            FooterStats(pq.ParquetFile(io.BytesIO(write_file(rows))).metadata),
            [(name, types[name]) for name in names],
        )
        for rows in (batch, batch.drop_columns(["ns"]))
    ]
    assert statistics[0] == statistics[1]


def test_files_of_older_versions_beside_nanoseconds_are_read() -> None:
    """Older versions stored the coarse timestamps as plain numbers."""
    schema = file_schema("id INT, ms TIMESTAMP(3), us TIMESTAMP_LTZ(6), ns TIMESTAMP(9)")
    rows = pa.Table.from_batches([rows_of(schema, 20)])
    plain = pa.schema([
        field.with_type(pa.int64())
        if pa.types.is_timestamp(field.type) and field.type.unit != "ns"
        else field
        for field in schema
    ])  # fmt: skip
    sink = io.BytesIO()
    pq.write_table(rows.cast(plain), sink, use_deprecated_int96_timestamps=True, store_schema=False)
    check_footer(pq.ParquetFile(sink).metadata, schema, 20)
    assert read(sink.getvalue(), schema) == rows


def test_parquet_types_are_those_of_java() -> None:
    data = write_file(rows_of(file_schema(), 3))
    columns = {column.name: column for column in pq.ParquetFile(io.BytesIO(data)).schema}
    types = {
        name: (column.physical_type, str(column.logical_type)) for name, column in columns.items()
    }
    assert types["_KEY_id"] == ("INT64", "None")
    assert types["_VALUE_KIND"] == ("INT32", "Int(bitWidth=8, isSigned=true)")
    assert types["d9"] == ("INT32", "Decimal(precision=9, scale=2)")
    assert types["d18"] == ("INT64", "Decimal(precision=18, scale=2)")
    assert types["d38"] == ("FIXED_LEN_BYTE_ARRAY", "Decimal(precision=38, scale=2)")
    assert types["day"] == ("INT32", "Date")
    assert types["clock"][1].startswith("Time(")
    assert "milliseconds" in types["clock"][1]
    assert types["s"] == ("BYTE_ARRAY", "String")
    assert types["b"] == ("BYTE_ARRAY", "None")
    for name, unit, utc in (
        ("ms", "milli", "false"), ("us", "micro", "false"), ("ltz", "milli", "true")
    ):  # fmt: skip
        assert types[name][0] == "INT64"
        assert f"isAdjustedToUTC={utc}, timeUnit={unit}seconds" in types[name][1]


def test_footer_has_field_ids_and_no_arrow_schema() -> None:
    schema = file_schema()
    file = pq.ParquetFile(io.BytesIO(write_file(rows_of(schema, 1))))
    assert file.metadata.metadata is None
    assert [field.metadata for field in file.schema_arrow] == [field.metadata for field in schema]
    assert [field.nullable for field in file.schema_arrow] == [field.nullable for field in schema]


def test_no_encoding_that_java_cannot_read() -> None:
    metadata = pq.read_metadata(io.BytesIO(write_file(rows_of(file_schema(), 1_000))))
    used_encodings = {
        encoding
        for index in range(metadata.num_columns)
        for encoding in metadata.row_group(0).column(index).encodings
    }
    assert used_encodings <= {
        "PLAIN",
        "RLE",
        "RLE_DICTIONARY",
        "PLAIN_DICTIONARY",
        "DELTA_BINARY_PACKED",
    }


@pytest.mark.parametrize(
    ("option", "codec"),
    [
        ("zstd", "ZSTD"),
        ("none", "UNCOMPRESSED"),
        ("uncompressed", "UNCOMPRESSED"),
        ("gzip", "GZIP"),
        ("lz4", "LZ4"),
        ("snappy", "SNAPPY"),
    ],
)
def test_the_option_chooses_the_codec(option: str, codec: str) -> None:
    metadata = pq.read_metadata(
        io.BytesIO(write_file(rows_of(file_schema(), 10), file_compression=option))
    )
    assert metadata.row_group(0).column(0).compression == codec


def test_a_table_of_numbers_has_no_dictionary() -> None:
    schema = arrow_schema(row_type(("a", "INT"), ("b", "DOUBLE")))
    data = write_file(rows_of(schema, 10))
    assert not pq.read_metadata(io.BytesIO(data)).row_group(0).column(0).has_dictionary_page


@pytest.mark.parametrize("column", ["ms", "us", "ltz"])
def test_coarse_timestamps_keep_their_range_beside_fine_ones(column: str) -> None:
    """A file with INT96 would give other instants back."""
    schema = file_schema(f"id BIGINT, {COARSE}, ns TIMESTAMP(9)")
    batch = rows_of(schema, 2)
    columns = {name: batch.column(name) for name in schema.names}
    edges = pa.array([-(2**63), 2**63 - 1], pa.int64())
    columns[column] = edges.cast(schema.field(column).type)
    batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)
    assert read(write_file(batch), schema) == pa.Table.from_batches([batch])


def test_columns_come_in_the_order_asked_for() -> None:
    data = write_file(rows_of(file_schema(), 3))
    batch = next(iter(read_batches(io.BytesIO(data), ["s", "_VALUE_KIND", "id"], 10)))
    assert batch.schema.names == ["s", "_VALUE_KIND", "id"]


def test_batches_have_at_most_so_many_rows() -> None:
    data = write_file(rows_of(file_schema(), 2_500))
    sizes = [batch.num_rows for batch in read_batches(io.BytesIO(data), ["id"], 1_000)]
    assert sizes == [1_000, 1_000, 500]


def test_batches_of_wide_rows_are_bounded_in_bytes() -> None:
    """The file may be small, because its rows repeat."""
    schema = file_schema("id BIGINT NOT NULL, s STRING")
    wide = rows_of(schema, 8_000)
    text = pa.array(["x" * 20_000] * 1_000)
    parts = [
        wide.slice(start, 1_000).set_column(schema.get_field_index("s"), schema.field("s"), text)
        for start in range(0, 8_000, 1_000)
    ]
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema) as writer:
        for part in parts:
            writer.write_batch(part)
    sizes = [
        (batch.num_rows, batch.nbytes)
        for batch in read_batches(io.BytesIO(sink.getvalue()), schema.names, 65_536)
    ]
    assert sum(rows for rows, _ in sizes) == 8_000
    assert max(size for _, size in sizes[1:]) <= 1.1 * BATCH_SIZE


def test_missing_columns_are_named() -> None:
    data = write_file(rows_of(file_schema(), 1))
    with pytest.raises(CorruptFileError, match="lacks the columns nothing, more"):
        list(read_batches(io.BytesIO(data), ["id", "nothing", "more"], 10))


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda data: data[:-1], id="truncated"),
        pytest.param(lambda data: data[:4] + bytes(200) + data[204:], id="overwritten"),
    ],
)
def test_damaged_files_are_refused(damage: Any) -> None:
    data = damage(write_file(rows_of(file_schema(), 2_000)))
    with pytest.raises(CorruptFileError, match="not a readable Parquet file"):
        list(read_batches(io.BytesIO(data), ["_KEY_id", "id"], 100))


def test_conform_copies_nothing_that_fits() -> None:
    schema = file_schema()
    batch = rows_of(schema, 10)
    renamed_schema = pa.schema([pa.field("x_" + field.name, field.type) for field in schema])
    after = conformed_batch(batch, renamed_schema)
    assert after.schema == renamed_schema
    for before, now in zip(batch.columns, after.columns, strict=True):
        assert [b and b.address for b in before.buffers()] == [
            b and b.address for b in now.buffers()
        ]


@pytest.mark.parametrize(
    ("column", "wanted_type"),
    [
        pytest.param(pa.array([1], pa.timestamp("ns")), pa.timestamp("us"), id="would-round"),
        pytest.param(pa.array([2**40]), pa.int32(), id="overflow"),
        pytest.param(pa.array([True]), pa.date32(), id="no-such-cast"),
    ],
)
def test_conform_refuses_loss(column: pa.Array, wanted_type: pa.DataType) -> None:
    batch = pa.RecordBatch.from_arrays([column], names=["c"])
    with pytest.raises(CorruptFileError, match=r"column 'c', stored as .*, cannot be read as"):
        conformed_batch(batch, pa.schema([("c", wanted_type)]))


def test_conform_refuses_another_number_of_columns() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1])], names=["c"])
    with pytest.raises(CorruptFileError, match="1 columns instead of 0"):
        conformed_batch(batch, pa.schema([]))
