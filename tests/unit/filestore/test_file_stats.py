"""A manifest has statistics of all columns, of some, or of a file that has a part of them."""

from __future__ import annotations

import dataclasses

import pytest

from stream_app.filestore.data.file_stats import value_stats_by_name
from stream_app.format.binary_row import serialize_row
from stream_app.format.column_stats import ColumnStats
from stream_app.model.files.data_file_meta import EMPTY_ROW, EMPTY_STATS, DataFileMeta, SimpleStats
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema

SCHEMA = new_table_schema(
    columns=parse_columns("k INT, v STRING, w BIGINT"),
    primary_keys=(),
    partition_keys=(),
    options={},
    time_ms=0,
)
W = ColumnStats(5, 9, 1)
FILE = DataFileMeta(
    file_name="data-1.parquet", file_size=9, row_count=3, min_key=EMPTY_ROW, max_key=EMPTY_ROW,
    key_stats=EMPTY_STATS, value_stats=EMPTY_STATS, min_sequence_number=0, max_sequence_number=0,
    schema_id=0, level=0,
)  # fmt: skip


def stats_of(*columns: str) -> SimpleStats:
    """W has 5 to 9 and one null; the others are null."""
    types = [column.data_type.as_nullable() for column in SCHEMA.fields if column.name in columns]
    low, high = ([value if name == "w" else None for name in columns] for value in (5, 9))
    return SimpleStats(
        min_values=serialize_row(low, types),
        max_values=serialize_row(high, types),
        null_counts=tuple(1 if name == "w" else 3 for name in columns),
    )


@pytest.mark.parametrize(
    ("stats_columns", "written", "columns", "stats_names"),
    [
        pytest.param(None, None, ("k", "v", "w"), ["k", "v", "w"], id="all"),
        pytest.param(("w",), None, ("w",), ["w"], id="some"),
        pytest.param(None, ("v", "w"), ("v", "w"), ["v", "w"], id="a-part"),
        pytest.param(("w",), ("v", "w"), ("w",), ["w"], id="some-of-a-part"),
    ],
)
def test_statistics_are_of_the_columns_that_the_file_has(
    stats_columns: tuple[str, ...] | None,
    written: tuple[str, ...] | None,
    columns: tuple[str, ...],
    stats_names: list[str],
) -> None:
    file = dataclasses.replace(
        FILE, value_stats_cols=stats_columns, write_cols=written, value_stats=stats_of(*columns)
    )
    stats = value_stats_by_name(file, SCHEMA)
    assert list(stats) == stats_names
    assert stats["w"] == W


def test_a_column_of_the_format_leaves_them_unknown() -> None:
    file = dataclasses.replace(FILE, write_cols=("w", "_ROW_ID"), value_stats=stats_of("w"))
    assert value_stats_by_name(file, SCHEMA) == {}
