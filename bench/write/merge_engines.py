"""Measures each merge engine's processor time beside that of deduplicate, for the same rows.

    ./run.sh bench engines [--messages N] [--quick]

The bench sorts and merges a window of three runs, each of which has half of all keys. An engine
with functions computes every column. The goal is at most twice the time of deduplicate.

Further lines have the number of values a second that functions of sets unite, in pairs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import datasketches
import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from stream_app.format.arrow_schema import arrow_schema
from stream_app.mergetree.key_value_batch import KeyValueLayout
from stream_app.mergetree.merge_engines.aggregates.aggregate_registry import fold_column
from stream_app.mergetree.merge_engines.aggregates.roaring64 import write_bitmaps
from stream_app.mergetree.merge_engines.aggregates.segment_changes import SegmentChanges
from stream_app.mergetree.merge_engines.merge_engine_registry import merge_function_of
from stream_app.mergetree.merge_window import sorted_window
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.merge.merge_rules import ColumnAggregate
from stream_app.model.schema.table_schema import (
    SEQUENCE_NUMBER,
    VALUE_KIND,
    TableSchema,
    new_table_schema,
)

GOAL = 2.0
ROUNDS = 5
RUNS = 3
COLUMNS = "k BIGINT, g BIGINT, a BIGINT, b DOUBLE, c STRING, d STRING, e INT, f TIMESTAMP(6)"


@dataclass(frozen=True, slots=True)
class Engine:
    """A merge engine and its options."""

    name: str
    options: Mapping[str, str]


def _aggregation(function: str, **columns: str) -> dict[str, str]:
    functions = {
        f"fields.{name}.aggregate-function": function for name, function in columns.items()
    }
    options = {"fields.default-aggregate-function": function} if function else {}
    return {"merge-engine": "aggregation", **options, **functions}


ENGINES = (
    Engine("first-row", {"merge-engine": "first-row"}),
    Engine("partial-update", {"merge-engine": "partial-update"}),
    Engine(
        "partial-update with a group",
        {"merge-engine": "partial-update", "fields.g.sequence-group": "a,b,c,d"},
    ),
    Engine("aggregation: last values", _aggregation("last_value")),
    Engine("aggregation: newest not null", _aggregation("")),
    Engine("aggregation: first not null", _aggregation("first_non_null_value")),
    Engine("aggregation: sums", _aggregation("", a="sum", b="sum", e="sum", g="sum")),
    Engine("aggregation: largest", _aggregation("", a="max", b="max", e="max", f="max")),
    Engine("aggregation: largest text", _aggregation("", c="max")),
    Engine("aggregation: joined texts", _aggregation("", c="listagg")),
)


def _schema(options: Mapping[str, str]) -> TableSchema:
    return new_table_schema(
        columns=parse_columns(COLUMNS),
        primary_keys=("k",),
        partition_keys=(),
        options={"bucket": "1", **options},
        time_ms=0,
    )


def _window(rows: int) -> tuple[pa.RecordBatch, KeyValueLayout]:
    rng = np.random.default_rng(7)
    schema = _schema({})
    layout = KeyValueLayout(
        pa.schema(
            [
                pa.field(SEQUENCE_NUMBER, pa.int64(), nullable=False),
                pa.field(VALUE_KIND, pa.int8(), nullable=False),
                *arrow_schema(schema.fields),
            ]
        ),
        ("k",),
    )
    run_rows = rows // RUNS
    keys = [np.sort(rng.permutation(2 * run_rows)[:run_rows]) for _ in range(RUNS)]
    count = run_rows * RUNS

    def column(field: pa.Field) -> pa.Array:
        if field.name == "k":
            return pa.array(np.concatenate(keys), pa.int64())
        if field.name == SEQUENCE_NUMBER:
            return pa.array(np.arange(count))
        if field.name == VALUE_KIND:
            return pa.array(np.zeros(count, np.int8))
        numbers = rng.integers(0, 10**6, count)
        is_null = None if field.name in "ge" else rng.random(count) < 0.2
        if pa.types.is_string(field.type):
            texts = np.array([f"{number:020}" for number in range(1000)])[numbers % 1000]
            return pa.array(texts, mask=is_null)
        plain = pa.array(numbers, mask=is_null)
        return plain.cast(field.type)

    columns = [column(field) for field in layout.schema]
    return pa.RecordBatch.from_arrays(columns, schema=layout.schema), layout


def _seconds(schema: TableSchema, batch: pa.RecordBatch, layout: KeyValueLayout) -> float:
    function = merge_function_of(schema)
    start_s = time.process_time()
    function.merge(sorted_window(batch, layout), layout)
    return time.process_time() - start_s


def lines(messages: int) -> Iterator[str]:
    """Yield a line with the ratio of each engine, and lines about functions of sets."""
    batch, layout = _window(max(3000, messages // 5))
    deduplicate = _schema({})
    yield f"merge of {batch.num_rows} rows in {RUNS} runs, beside deduplicate (goal {GOAL})"
    for engine in ENGINES:
        schema = _schema(engine.options)
        # In turns, so that a busy machine slows both.
        pairs = [
            (_seconds(deduplicate, batch, layout), _seconds(schema, batch, layout))
            for _ in range(ROUNDS)
        ]
        ratio = min(engine_s for _, engine_s in pairs) / min(base_s for base_s, _ in pairs)
        missed_text = "" if ratio <= GOAL else "  missed"
        yield f"  {engine.name:32} {ratio:.2f}{missed_text}"
    for function, value_of in SETS.items():
        rates = [f"{_unions_per_s(function, value_of, size):9,.0f}" for size in SET_SIZES]
        yield f"  {function:14} values/s of {SET_SIZES[0]} and {SET_SIZES[1]}: {' '.join(rates)}"


def _unions_per_s(function: str, value_of: Callable[[list[int]], bytes], size: int) -> float:
    rng = np.random.default_rng(7)
    sets = [rng.integers(0, 10**6, size).tolist() for _ in range(SET_NUMBERS // size)]
    column = pa.array([value_of(numbers) for numbers in sets], pa.binary())
    changes = SegmentChanges(np.arange(len(sets)), np.arange(0, len(sets), 2))
    start_s = time.process_time()
    fold_column(column, changes, ColumnAggregate(function=function))
    return len(sets) / (time.process_time() - start_s)


def _hll_sketch(numbers: list[int]) -> bytes:
    sketch = datasketches.hll_sketch(12)
    for number in numbers:
        sketch.update(number)
    return bytes(sketch.serialize_compact())


def _theta_sketch(numbers: list[int]) -> bytes:
    sketch = datasketches.update_theta_sketch()
    for number in numbers:
        sketch.update(number)
    return bytes(sketch.compact().serialize())


SET_SIZES = (10, 1000)
SET_NUMBERS = 400_000
SETS: Mapping[str, Callable[[list[int]], bytes]] = {
    "rbm32": lambda numbers: bytes(BitMap(numbers).serialize()),
    "rbm64": lambda numbers: write_bitmaps({0: BitMap(numbers)}),
    "hll_sketch": _hll_sketch,
    "theta_sketch": _theta_sketch,
}


if __name__ == "__main__":
    for line in lines(1_500_000):
        print(line)
