"""Nested values, and models of the aggregates that fold them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stream_app.mergetree.merge_engines.aggregates.segment_changes import ChangeOp
from stream_app.model.schema.merge.merge_rules import ColumnAggregate

Value = Any
ROWS = pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string()), ("v", pa.int32())]))
MAP = pa.map_(pa.string(), pa.int32())
TIMED = pa.map_(pa.string(), pa.struct([("v", pa.int32()), ("ts", pa.string())]))
KEY = ("a", "b")
LIMIT = 3


@dataclass(frozen=True)
class Fold:
    """One function: `add` and `retract` give the next value of two that are not null."""

    kind: pa.DataType
    add: Callable[[Value, Value], Value]
    retract: Callable[[Value, Value], Value] | None = None
    late: Callable[[Value, Value], Value] | None = None
    alone: Callable[[Value], Value] = lambda value: value

    def next(self, op: ChangeOp, so_far: Value, value: Value) -> Value:
        match op:
            case ChangeOp.SKIP:
                return so_far
            case ChangeOp.CLEAR:
                return None
            case ChangeOp.SET:
                return value
            case ChangeOp.RETRACT:
                assert self.retract is not None
                lacks = so_far is None or value is None
                return so_far if lacks else self.retract(so_far, value)
        if so_far is None or value is None:
            only_value = value if so_far is None else so_far
            return None if only_value is None else self.alone(only_value)
        if op is ChangeOp.ADD_OLDER:
            late = self.late or (lambda acc, old: self.add(old, acc))
            return late(so_far, value)
        return self.add(so_far, value)


def once(values: Value) -> Value:
    return [value for index, value in enumerate(values) if value not in values[:index]]


def without(values: Value, removed_values: Value) -> Value:
    pending_values, remaining = list(removed_values), []
    for value in values:
        if value in pending_values:
            pending_values.remove(value)
        else:
            remaining.append(value)
    return remaining


def by_key(rows: Value) -> dict[Value, Value]:
    return {tuple(row[name] for name in KEY): row for row in full(rows)}


def full(rows: Value) -> Value:
    return [row for row in rows if row is not None]


def limited_list(stored_value: Value, new: Value) -> Value:
    if len(stored_value) >= LIMIT:
        return stored_value
    return full(stored_value) + full(new)[: LIMIT - len(stored_value)]


def limited_by_key(stored_value: Value, new: Value) -> Value:
    return (
        stored_value
        if len(stored_value) >= LIMIT
        else [*by_key(limited_list(stored_value, new)).values()]
    )


def partial(rows: Value) -> Value:
    values_by_key: dict[Value, Value] = {}
    for row in full(rows):
        key = tuple(row[name] for name in KEY)
        set_values = {name: value for name, value in row.items() if value is not None}
        values_by_key[key] = values_by_key.get(key, dict.fromkeys(row)) | set_values
    return [*values_by_key.values()]


def newest_by_time(stored_value: Value, new: Value) -> Value:
    rows = dict(stored_value)
    for key, row in new:
        if row is None:
            rows.pop(key, None)
        elif row["ts"] is not None:
            old = rows.get(key)
            if old is None or old["ts"] is None or row["ts"] > old["ts"]:
                rows[key] = row
    return [*rows.items()]


def less_keys(stored_value: Value, removed_rows: Value) -> Value:
    return [row for key, row in by_key(stored_value).items() if key not in by_key(removed_rows)]


FOLDS = {
    ColumnAggregate(function="collect"): Fold(
        ROWS, lambda a, b: a + b, without, lambda acc, old: acc + old
    ),
    ColumnAggregate(function="collect", is_distinct=True): Fold(
        ROWS, lambda a, b: once(a + b), without, lambda acc, old: once(acc + old), once
    ),
    ColumnAggregate(function="merge_map"): Fold(
        MAP,
        lambda a, b: [*(dict(a) | dict(b)).items()],
        lambda a, b: [pair for pair in a if pair[0] not in dict(b)],
    ),
    ColumnAggregate(function="nested_update"): Fold(
        ROWS,
        lambda a, b: full(a) + full(b),
        lambda a, b: [row for row in full(a) if row not in full(b)],
    ),
    ColumnAggregate(function="nested_update", nested_key=KEY): Fold(
        ROWS, lambda a, b: [*by_key(a + b).values()], less_keys
    ),
    ColumnAggregate(function="nested_update", count_limit=LIMIT): Fold(
        ROWS, limited_list, lambda a, b: [row for row in full(a) if row not in full(b)]
    ),
    ColumnAggregate(function="nested_update", count_limit=LIMIT, nested_key=KEY): Fold(
        ROWS, limited_by_key, less_keys
    ),
    ColumnAggregate(function="nested_partial_update", nested_key=KEY): Fold(
        ROWS, lambda a, b: partial(a + b)
    ),
    ColumnAggregate(function="merge_map_with_keytime", time_field="ts"): Fold(
        TIMED, newest_by_time
    ),
}
NESTED = {how.function for how in FOLDS}
