"""A read of chosen pages returns the rows of a whole read, in files of any layout."""

from __future__ import annotations

import datetime as dt
import io
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.errors import CorruptFileError
from stream_app.filestore.data.part_filter import ConditionPartFilter
from stream_app.filestore.data.stats_filter import StatsFilter
from stream_app.format.data_files.parquet_reader import numbered_batches
from stream_app.format.file_parts import PartChoice, PartStats
from stream_app.format.parquet.footer import footer_of
from stream_app.format.parquet.page_file import ChosenPages, ParsedFooter
from stream_app.format.parquet.page_index import decode_pages
from stream_app.format.parquet.thrift_compact import decode_integer, list_members, raw_struct
from stream_app.model.schema.data_type import DataType, RowType, parse_columns

COLUMNS = parse_columns(
    "k BIGINT NOT NULL, i INT, s STRING, d DECIMAL(9,2), w DECIMAL(30,4), day DATE, "
    "at TIMESTAMP(6), fine TIMESTAMP(9), t TINYINT, b BOOLEAN, x DOUBLE, raw BYTES"
)
MICROS = pa.timestamp("us")
CONDITIONS = (
    pc.field("k") == 777, pc.field("k") > 1_900, pc.field("k").isin([3, 1_004]),
    pc.field("i") < 5, pc.field("i").is_null(), pc.field("s") == "s0042", pc.field("s") > "s09",
    pc.field("d") == pc.scalar(Decimal("3.00")).cast(pa.decimal128(9, 2)),
    pc.field("day") < dt.date(1970, 1, 9), pc.field("b") & (pc.field("k") < 100),
    (pc.field("k") == 5) | (pc.field("i") == 5), pc.field("x") > 1.0, pc.field("t") == 3,
    pc.field("at") < pc.scalar(dt.datetime(1970, 1, 1, 0, 0, 9)), pc.field("k") < 0,  # noqa: DTZ001
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """The layout of a file and of its rows."""

    rows: int
    group_rows: int
    page_rows: int
    codec: str
    data_page: str
    dictionary: bool
    dictionary_size: int
    page_index: bool
    stored_schema: bool
    nulls: int
    seed: int


SHAPES = st.builds(
    Shape,
    rows=st.integers(1, 3_000),
    group_rows=st.sampled_from([400, 1_500, 5_000]),
    page_rows=st.sampled_from([30, 100, 700]),
    codec=st.sampled_from(["none", "zstd", "snappy", "gzip", "lz4", "brotli"]),
    data_page=st.sampled_from(["1.0", "2.0"]),
    dictionary=st.booleans(),
    dictionary_size=st.sampled_from([100, 1 << 20]),
    page_index=st.sampled_from([True, True, True, False]),
    stored_schema=st.booleans(),
    nulls=st.sampled_from([0, 1, 30, 100]),
    seed=st.integers(0, 1 << 30),
)


def rows_of(shape: Shape) -> pa.Table:
    """Keys ascend, integers and days too in pieces, all else is random."""
    rng = random.Random(shape.seed)
    keys = sorted(rng.sample(range(shape.rows * 2), shape.rows))
    first_value_row = rng.randrange(shape.rows)

    def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
        with_nulls = [
            None if rng.randrange(100) < shape.nulls and row >= first_value_row else value
            for row, value in enumerate(values)
        ]
        return pa.array(with_nulls, kind)

    fifties = [key // 50 for key in keys]
    epoch = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the column has no zone
    return pa.table({
        "k": pa.array(keys, pa.int64()),
        "i": column(fifties, pa.int32()),
        "s": column([f"s{key % 1000:04}" for key in keys], pa.string()),
        "d": column([Decimal(number) for number in fifties], pa.decimal128(9, 2)),
        "w": column([Decimal(rng.randrange(10**9)) for _ in keys], pa.decimal128(30, 4)),
        "day": column([dt.date(1970, 1, 1 + number % 28) for number in fifties], pa.date32()),
        "at": column([epoch + number * dt.timedelta(seconds=1) for number in fifties], MICROS),
        "fine": column([epoch for _ in keys], pa.timestamp("ns")),
        "t": column([number % 100 for number in fifties], pa.int8()),
        "b": column([rng.random() < 0.1 for _ in keys], pa.bool_()),
        "x": column([rng.random() * 1.01 for _ in keys], pa.float64()),
        "raw": column([rng.randbytes(3) for _ in keys], pa.binary()),
    })  # fmt: skip


def write_file(table: pa.Table, shape: Shape) -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        table, sink, row_group_size=shape.group_rows, compression=shape.codec,
        data_page_version=shape.data_page, use_dictionary=shape.dictionary,
        dictionary_pagesize_limit=shape.dictionary_size, write_page_index=shape.page_index,
        data_page_size=1 << 20, write_batch_size=shape.page_rows, max_rows_per_page=shape.page_rows,
        store_schema=shape.stored_schema, store_decimal_as_integer=not shape.stored_schema,
        write_page_checksum=True,
    )  # fmt: skip
    return sink.getvalue()


def choice_of(condition: pc.Expression) -> PartChoice:
    names = [
        column.name
        for column in COLUMNS
        if f"{column.name} "
        in f"{condition} ".replace("(", " ").replace(")", " ").replace(",", " ")
    ]
    columns = RowType(tuple(column for column in COLUMNS if column.name in names))
    parts = ConditionPartFilter(StatsFilter(condition, columns), frozenset(names))
    choice = parts.of_file((column, column) for column in COLUMNS)
    assert choice is not None
    return choice


def read(
    data: bytes, names: Sequence[str], parts: PartChoice | None
) -> list[tuple[int, pa.RecordBatch]]:
    return list(numbered_batches(io.BytesIO(data), names, 1_000, part_choice=parts))


def check_rows(batches: list[tuple[int, pa.RecordBatch]], all_rows: pa.Table) -> None:
    """Each batch is what a whole read has at its place."""
    end = 0
    for start, batch in batches:
        assert start >= end
        assert pa.Table.from_batches([batch]).equals(all_rows.slice(start, batch.num_rows))
        end = start + batch.num_rows


@settings(max_examples=40, deadline=None)
@given(shape=SHAPES, condition=st.sampled_from(CONDITIONS), order=st.randoms(use_true_random=False))
def test_chosen_rows_are_those_of_a_whole_read(
    shape: Shape, condition: pc.Expression, order: random.Random
) -> None:
    table = rows_of(shape)
    data = write_file(table, shape)
    names = order.sample(table.column_names, order.randint(1, len(table.column_names)))
    choice = choice_of(condition)
    names += [name for name, _ in choice.columns if name not in names]
    all_rows = pa.Table.from_batches([batch for _, batch in read(data, names, None)])
    chosen = read(data, names, choice)
    check_rows(chosen, all_rows)
    filtered_batches = [batch.filter(condition) for _, batch in chosen]
    assert pa.Table.from_batches(filtered_batches, all_rows.schema).equals(
        all_rows.filter(condition)
    )


@dataclass(frozen=True)
class SomeParts:
    """Implements `PartChoice`: parts at random, whatever their statistics say."""

    columns: Sequence[tuple[str, DataType]]
    rng: random.Random
    judge: None = None

    def may_match(self, parts: Sequence[PartStats]) -> list[bool]:
        return [self.rng.random() < 0.2 for _ in parts]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(shape=SHAPES)
def test_any_choice_of_parts_gives_their_rows(shape: Shape) -> None:
    shape = replace(shape, page_index=True)
    table = rows_of(shape)
    data = write_file(table, shape)
    key_columns = [(column.name, column.data_type) for column in COLUMNS if column.name in "ks"]
    all_rows = pa.Table.from_batches([batch for _, batch in read(data, table.column_names, None)])
    chosen = read(data, table.column_names, SomeParts(key_columns, random.Random(shape.seed)))
    check_rows(chosen, all_rows)


SORTED = Shape(
    rows=2_000, group_rows=5_000, page_rows=100, codec="zstd", data_page="1.0", dictionary=True,
    dictionary_size=1 << 20, page_index=True, stored_schema=False, nulls=30, seed=1,
)  # fmt: skip


@dataclass(frozen=True)
class OnlyStatistics:
    """Implements `PartChoice` by that of a condition, without its values."""

    choice: PartChoice
    judge: None = None

    @property
    def columns(self) -> Sequence[tuple[str, DataType]]:
        return self.choice.columns

    def may_match(self, parts: Sequence[PartStats]) -> Sequence[bool]:
        return self.choice.may_match(parts)


def test_few_rows_are_decoded() -> None:
    """By statistics the reader decodes whole pages, by values hardly more than passing rows."""
    data = write_file(rows_of(SORTED), SORTED)
    choice = choice_of(pc.field("i") == 5)
    by_values, by_statistics = (
        sum(batch.num_rows for _, batch in read(data, COLUMNS.names, parts))
        for parts in (choice, OnlyStatistics(choice))
    )
    assert 1 <= by_values <= 50
    assert by_statistics in (100, 200)


def index_span(data: bytes) -> tuple[int, int]:
    """Return the span of the page indexes: behind the last page, before the footer."""
    footer = raw_struct(footer_of(data))
    chunks = [
        raw_struct(chunk)
        for group in list_members(footer[4])
        for chunk in list_members(raw_struct(group)[1])
    ]
    return (
        min(decode_integer(chunk[6]) for chunk in chunks if 6 in chunk),
        max(decode_integer(chunk[4]) + decode_integer(chunk[5]) for chunk in chunks),
    )


@pytest.mark.variant
def test_a_flipped_bit_of_an_index_never_leaves_a_row_of_ascending_keys_out() -> None:
    """The rows, or the error of a damaged file; nothing else."""
    shape = replace(SORTED, rows=160, page_rows=20, nulls=0, dictionary=False)
    table = rows_of(shape).select(["k", "i"])
    data = write_file(table, shape)
    start, end = index_span(data)
    keys = table["k"].to_pylist()
    chosen_keys = [keys[row] for row in (0, 19, 20, 159)]
    condition = pc.field("k").isin(chosen_keys)
    choice = OnlyStatistics(choice_of(condition))
    expected = table.filter(condition).to_pylist()
    refused_count = 0
    for position in range(start, end):
        for bit in (0, 4, 7):
            damaged_bytes = bytearray(data)
            damaged_bytes[position] ^= 1 << bit
            try:
                batches = read(bytes(damaged_bytes), table.column_names, choice)
            except CorruptFileError:
                refused_count += 1
                continue
            rows = pa.Table.from_batches([batch for _, batch in batches]).filter(condition)
            assert rows.to_pylist() == expected, (position - start, bit)
    assert refused_count < (end - start) / 2, "most damage costs time alone"


TABLES = Path(__file__).resolve().parents[3] / "fixtures" / "java_tables" / "java.db"


@pytest.mark.parametrize("table", sorted(TABLES.iterdir()), ids=lambda table: table.name)
def test_pages_that_java_wrote_are_laid_into_a_small_file(table: Path) -> None:
    """The reader takes all pages of each column, since these tables are small."""
    for path in table.rglob("*.parquet"):
        data = path.read_bytes()
        file = pq.ParquetFile(io.BytesIO(data))
        parts = ParsedFooter(footer_of(data))
        for leaf, chunk in enumerate(parts.chunks(0)):
            column = file.metadata.schema.column(leaf)
            if column.max_repetition_level > 0 or "." in column.path:
                continue
            span, index = chunk.span, chunk.index("offset")
            assert index is not None
            pages = decode_pages(
                data[index.start : index.end], file.metadata.num_rows, span.start, span.end
            )
            first = int(pages.offsets[0])
            bytes_of = [
                data[start : start + size]
                for start, size in zip(pages.offsets.tolist(), pages.sizes.tolist(), strict=True)
            ]
            numbers = np.arange(len(bytes_of))
            chosen = ChosenPages(chunk, pages, data[span.start : first], numbers, bytes_of)
            assert chosen.contradiction() is None
            small = parts.open_pages({column.path: chosen})
            values = small.reader.read_column(0).to_pylist()
            assert repr(values) == repr(file.read(columns=[column.path]).column(0).to_pylist())
