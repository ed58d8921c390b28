"""Filters that Spark pushes down keep the rows that a model keeps."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import datasource

from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.schema.data_type import RowType, parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.predicate.predicate import to_expression
from stream_app.spark.read.pushed_filters import translate_filters
from tests.support.histories.random_changes import RandomChanges

pytestmark = pytest.mark.skipif(
    not hasattr(datasource, "Filter"), reason="Spark 4.0 hands no filters down"
)
COLUMNS = parse_columns(
    "k INT, b BOOLEAN, t TINYINT, i INT, l BIGINT, d DECIMAL(9,2), e DECIMAL(38,10), s STRING, "
    "y BYTES, day DATE, t3 TIMESTAMP(3), t6 TIMESTAMP(6), z6 TIMESTAMP(6) WITH LOCAL TIME ZONE, "
    "f FLOAT, g DOUBLE"
)
SIGNS = {
    "EqualTo": lambda a, b: a == b,
    "EqualNullSafe": lambda a, b: a == b,
    "GreaterThan": lambda a, b: a > b,
    "GreaterThanOrEqual": lambda a, b: a >= b,
    "LessThan": lambda a, b: a < b,
    "LessThanOrEqual": lambda a, b: a <= b,
}


def rank(value: Any) -> Any:
    """Spark's order: NaN is greater than all other numbers, texts go by their bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def holds(pushed_filter: Any, row: dict[str, Any]) -> bool | None:
    """Return SQL's value of a filter for a row: true, false, or null."""
    name = type(pushed_filter).__name__
    if name == "Not":
        inner = holds(pushed_filter.child, row)
        return None if inner is None else not inner
    value = row[pushed_filter.attribute[0]]
    if name == "IsNull":
        return value is None
    if name == "IsNotNull":
        return value is not None
    if name == "EqualNullSafe" and (value is None or pushed_filter.value is None):
        return value is pushed_filter.value
    if value is None:
        return None
    if name == "In":
        return rank(value) in map(rank, pushed_filter.value)
    if name == "StringStartsWith":
        return value.startswith(pushed_filter.value)
    return SIGNS[name](rank(value), rank(pushed_filter.value))


def a_filter(noise: random.Random, rows: list[dict[str, Any]]) -> Any:
    column = noise.choice(COLUMNS.names)
    values = [row[column] for row in noise.choices(rows, k=4) if row[column] is not None]
    kinds = ["IsNull", "IsNotNull", *SIGNS, "In", "StringStartsWith"]
    kind = noise.choice(kinds if values else kinds[:2])
    filter_class = getattr(datasource, kind)
    if kind in ("IsNull", "IsNotNull"):
        condition = filter_class((column,))
    elif kind == "In":
        condition = filter_class((column,), tuple(values))
    elif kind == "StringStartsWith":
        texts = [row["s"] for row in rows if row["s"] is not None]
        condition = filter_class(("s",), noise.choice([*texts, ""])[:2])
    else:
        condition = filter_class((column,), values[0])
    return datasource.Not(condition) if noise.random() < 0.4 else condition


def test_filters_mean_what_spark_means_by_them(seed: int) -> None:
    noise = random.Random(seed)
    schema = new_table_schema(
        columns=COLUMNS,
        primary_keys=("k",),
        partition_keys=(),
        options={"bucket": "1"},
        time_ms=0,
    )
    rows = [row for _, row in RandomChanges(schema, noise).epoch(200)]
    table = pa.Table.from_pylist(rows, arrow_schema(schema.fields)).append_column(
        "row", pa.array(range(len(rows)))
    )
    # FLOAT has fewer digits than Python.
    rows = table.to_pylist()
    for _ in range(300):
        pushed_filter = a_filter(noise, rows)
        conditions, remaining_filters = translate_filters([pushed_filter], schema.fields)
        assert (len(conditions), remaining_filters) == (1, []), pushed_filter
        passing = table.filter(to_expression(conditions[0])).column("row").to_pylist()
        assert passing == [row["row"] for row in rows if holds(pushed_filter, row)], pushed_filter


NEW_YEAR = dt.datetime.fromisoformat("2026-01-01")
LEFT: dict[str, Any] = {
    "a column of a column": ("EqualTo", ("s", "x"), "a"),
    "a column that the table does not have": ("EqualTo", ("rowkind",), "+I"),
    "null": ("EqualTo", ("i",), None),
    "null among others": ("In", ("i",), (1, None)),
    "more digits than the column": ("LessThan", ("d",), Decimal("1.005")),
    "more than the column can hold": ("LessThan", ("d",), Decimal(10**7)),
    "finer than the column": (
        "EqualTo",
        ("t3",),
        NEW_YEAR.replace(microsecond=5),
    ),
    "a zone that the column has not": ("EqualTo", ("t6",), NEW_YEAR.replace(tzinfo=dt.UTC)),
    "no zone": ("EqualTo", ("z6",), NEW_YEAR),
    "nanoseconds, of which Spark sees less": (
        "EqualTo",
        ("t9",),
        NEW_YEAR,
    ),
    "the end of a text": ("StringEndsWith", ("s",), "a"),
    "the middle of a text": ("StringContains", ("s",), "a"),
}


@pytest.mark.parametrize("case", LEFT)
def test_filters_that_we_cannot_translate_are_left_to_spark(case: str) -> None:
    name, path, value = LEFT[case]
    pushed_filter = getattr(datasource, name)(path, value)
    columns = RowType((*COLUMNS.fields, *parse_columns("t9 TIMESTAMP(9)").fields))
    assert translate_filters([pushed_filter, datasource.Not(pushed_filter)], columns) == (
        [],
        [pushed_filter, datasource.Not(pushed_filter)],
    )


@pytest.mark.parametrize(
    ("prefix", "end"),
    [("ab", "ac"), ("a\U0010ffff", "b"), ("\ud7ff", "\ue000"), ("\U0010ffff", None), ("", None)],
)
def test_a_prefix_is_a_range(prefix: str, end: str | None) -> None:
    (condition,), _ = translate_filters([datasource.StringStartsWith(("s",), prefix)], COLUMNS)
    texts = [prefix, prefix + "x", prefix + "\U0010ffff", *([] if end is None else [end])]
    table = pa.table({"s": pa.array([*texts, "a"])})
    matching = set(table.filter(to_expression(condition)).column("s").to_pylist())
    assert matching == {text for text in [*texts, "a"] if text.startswith(prefix)}
