"""Random streams of changes of one bucket, and the rows that a dict expects of them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from stream_app.mergetree.interval_partition import partition_into_sections
from stream_app.mergetree.key_value_batch import KeyValueLayout
from stream_app.mergetree.merge_engines.merge_function import MergeFunction
from stream_app.mergetree.merged_section import merged_section
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from tests.support.tables.lsm_files import MemoryFiles, a_layout

Row = dict[str, Any]

TEXTS = ["", "a", "aa", "a\0", "ab", "b", "é", "\uffff", "\U0001f600", "x" * 40]
EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a timestamp without zone
MICROS = [-62135596800000000, -1, 0, 253402214400000000]
TIMES = [EPOCH + datetime.timedelta(microseconds=micros) for micros in MICROS]


@dataclass(frozen=True)
class Shape:
    """A kind of table: its key columns and the keys that occur."""

    label: str
    key_columns: str
    keys: tuple[tuple[Any, ...], ...]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def key_names(self) -> tuple[str, ...]:
        return parse_columns(self.key_columns).names

    @property
    def layout(self) -> KeyValueLayout:
        columns = f"{self.key_columns}, v STRING, ts INT, n BIGINT"
        return a_layout(columns, *self.key_names, **self.settings)

    def files(self, **options: Any) -> MemoryFiles:
        types = tuple(column.data_type for column in parse_columns(self.key_columns))
        return MemoryFiles(self.layout, types, **options)


def singles(values: Iterable[Any]) -> tuple[tuple[Any, ...], ...]:
    return tuple((value,) for value in values)


INTS = singles([-(2**31), -5, -1, 0, 1, 2, 3, 7, 100, 2**31 - 1])
BY_TIME = {"sequence_fields": ("ts",)}
SHAPES = (
    Shape("int", "k INT NOT NULL", INTS),
    Shape("tinyint", "k TINYINT NOT NULL", singles(range(-128, 128, 16))),
    Shape("bigint", "k BIGINT NOT NULL", singles([-(2**63), -(2**62), -1, 0, 1, 2**40, 2**63 - 1])),
    Shape("boolean", "k BOOLEAN NOT NULL", singles([False, True])),
    Shape("string", "k STRING NOT NULL", singles(TEXTS)),
    Shape("bytes", "k BYTES NOT NULL", singles(text.encode() for text in TEXTS)),
    Shape(
        "decimal",
        "k DECIMAL(10,2) NOT NULL",
        singles(Decimal(cents).scaleb(-2) for cents in range(-9, 9)),
    ),
    Shape(
        "date",
        "k DATE NOT NULL",
        singles([datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(2024, 2, 29)]),
    ),
    Shape("timestamp", "k TIMESTAMP(6) NOT NULL", singles(TIMES)),
    Shape(
        "int, bigint",
        "a INT NOT NULL, b BIGINT NOT NULL",
        tuple((a, b) for a in (-1, 0, 2**31 - 1) for b in (-(2**63), 0, 2**63 - 1)),
    ),
    Shape(
        "string, int",
        "a STRING NOT NULL, b INT NOT NULL",
        tuple((a, b) for a in TEXTS[:5] for b in (-1, 0, 9)),
    ),
    Shape("int, newest by ts", "k INT NOT NULL", INTS, BY_TIME),
    Shape(
        "string, newest by falling ts, n",
        "k STRING NOT NULL",
        singles(TEXTS),
        {"sequence_fields": ("ts", "n"), "is_sequence_descending": True},
    ),
)


@st.composite
def changes(draw: st.DrawFn, shape: Shape, max_size: int = 60) -> list[Row]:
    """Return changes in order of arrival, without sequence numbers."""
    change = st.tuples(
        st.sampled_from([0, 0, 1, 2, 2, 3]),
        st.sampled_from(shape.keys),
        st.sampled_from(["", "v", "long " * 20, None]),
        st.sampled_from([None, -1, 0, 1, 2]),
        st.sampled_from([None, 0, 1]),
    )
    return [
        {
            VALUE_KIND: kind,
            **dict(zip(shape.key_names, key, strict=True)),
            "v": value,
            "ts": ts,
            "n": n,
        }
        for kind, key, value, ts, n in draw(st.lists(change, max_size=max_size))
    ]


def batches_of(rows: Sequence[Row], shape: Shape, size: int) -> Iterable[pa.RecordBatch]:
    """Yield rows as a writer takes them, in batches."""
    schema = pa.schema(list(shape.layout.schema)[1:])
    for start in range(0, len(rows), size):
        yield pa.RecordBatch.from_pylist(list(rows[start : start + size]), schema=schema)


def with_sequence_numbers(rows: Sequence[Row], first: int) -> list[Row]:
    return [{SEQUENCE_NUMBER: first + number, **row} for number, row in enumerate(rows)]


def key_in(shape: Shape) -> Callable[[Row], tuple[Any, ...]]:
    return lambda row: tuple(row[name] for name in shape.key_names)


def newest(rows: Iterable[Row], shape: Shape) -> dict[tuple[Any, ...], Row]:
    """Return the newest row of each key, deletes included, as the model."""
    layout = shape.layout
    sign = -1 if layout.is_sequence_descending else 1

    def age(row: Row) -> tuple[Any, ...]:
        fields = [row[name] for name in layout.sequence_fields]
        ranks = [(value is not None, sign * (value or 0)) for value in fields]
        return (*ranks, row[SEQUENCE_NUMBER])

    state: dict[tuple[Any, ...], Row] = {}
    key = key_in(shape)
    for row in rows:
        newest_row = state.get(key(row))
        if newest_row is None or age(row) > age(newest_row):
            state[key(row)] = row
    return state


def merged_view(
    metas: Iterable[DataFileMeta], files: MemoryFiles, engine: MergeFunction
) -> list[Row]:
    """Return what a reader finds: all files merged, deletes included, in key order."""
    return [
        row
        for section in partition_into_sections(metas, files.key_of)
        for batch in merged_section(section, files.layout, engine, files)
        for row in batch.to_pylist()
    ]
