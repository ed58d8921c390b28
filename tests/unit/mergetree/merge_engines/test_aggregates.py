"""Each aggregate function equals a fold of single steps as Paimon's, in segments of any length."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from stream_app.errors import MergeError
from stream_app.mergetree.merge_engines.aggregates.aggregate_registry import (
    AGGREGATES,
    fold_column,
)
from stream_app.mergetree.merge_engines.aggregates.roaring64 import read_bitmaps, write_bitmaps
from stream_app.mergetree.merge_engines.aggregates.segment_changes import ChangeOp, SegmentChanges
from stream_app.mergetree.merge_engines.aggregates.unions import (
    union_of_bitmaps,
    union_of_hll_sketches,
    union_of_long_bitmaps,
    union_of_theta_sketches,
)
from stream_app.model.schema.merge.aggregate_function import AGGREGATE_FUNCTIONS
from stream_app.model.schema.merge.merge_rules import ColumnAggregate
from tests.support.histories.nested_values import NESTED

datasketches = pytest.importorskip("datasketches")  # not there for each Python
Value = Any


@dataclass
class Fold:
    """A function, step by step: `add` and `retract` give the next value."""

    add: Callable[[Value, Value], Value]
    retract: Callable[[Value, Value], Value] | None = None
    is_first: bool = False
    skips_null: bool = False
    keeps_order: bool = False
    taken: bool = False

    def run(self, changes: Sequence[tuple[ChangeOp, Value]]) -> Value:
        so_far, self.taken = None, False
        for op, value in changes:
            match op:
                case ChangeOp.ADD:
                    so_far = self.added(so_far, value)
                case ChangeOp.ADD_OLDER:
                    late = (so_far, value) if self.keeps_order else (value, so_far)
                    so_far = self.added(*late)
                case ChangeOp.RETRACT:
                    assert self.retract is not None
                    so_far = self.retract(so_far, value)
                case ChangeOp.SET:
                    so_far = value
                case ChangeOp.CLEAR:
                    so_far = None
        return so_far

    def added(self, so_far: Value, value: Value) -> Value:
        if not self.is_first:
            return self.add(so_far, value)
        if self.taken or (self.skips_null and value is None):
            return so_far
        self.taken = True
        return value


def either_value(combine: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    """Combine two values; with one null, return the other value."""

    def combine_known(so_far: Value, value: Value) -> Value:
        if so_far is None:
            return value
        return so_far if value is None else combine(so_far, value)

    return combine_known


def wrapped_integer(value: int, bits: int = 64) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def lesser_value(so_far: Value, value: Value) -> Value:
    if value is None:
        return so_far
    return wrapped_integer((0 if so_far is None else so_far) - value)


def joined_text(so_far: str, text: str) -> str:
    return ",".join(part for part in (so_far, text) if part)


def union_function(name: str) -> Callable[[bytes, bytes], bytes]:
    union = {
        "rbm32": union_of_bitmaps,
        "rbm64": union_of_long_bitmaps,
        "hll_sketch": union_of_hll_sketches,
        "theta_sketch": union_of_theta_sketches,
    }[name]
    return lambda a, b: union([a, b])


FOLDS: dict[str, tuple[str, Fold]] = {
    "bool_and": ("truth", Fold(either_value(lambda a, b: a and b))),
    "bool_or": ("truth", Fold(either_value(lambda a, b: a or b))),
    "first_non_null_value": ("number", Fold(either_value(max), is_first=True, skips_null=True)),
    "first_not_null_value": ("number", Fold(either_value(max), is_first=True, skips_null=True)),
    "first_value": ("number", Fold(either_value(max), is_first=True)),
    "hll_sketch": ("hll", Fold(either_value(union_function("hll_sketch")))),
    "last_non_null_value": (
        "number",
        Fold(lambda a, b: a if b is None else b, lambda a, b: a if b is None else None),
    ),
    "last_value": ("number", Fold(lambda _, b: b, lambda *_: None)),
    "listagg": ("text", Fold(either_value(joined_text))),
    "max": ("number", Fold(either_value(max))),
    "min": ("text", Fold(either_value(min))),
    "product": ("number", Fold(either_value(lambda a, b: wrapped_integer(a * b)))),
    "rbm32": ("bitmap", Fold(either_value(union_function("rbm32")))),
    "rbm64": ("long bitmap", Fold(either_value(union_function("rbm64")))),
    "sum": ("number", Fold(either_value(lambda a, b: wrapped_integer(a + b)), lesser_value)),
    "theta_sketch": ("theta", Fold(either_value(union_function("theta_sketch")))),
}
TYPES = {
    "number": pa.int64(),
    "text": pa.string(),
    "truth": pa.bool_(),
    **dict.fromkeys(("bitmap", "long bitmap", "hll", "theta"), pa.binary()),
}
FIRST = {name for name, (_, fold) in FOLDS.items() if fold.is_first}


def value_of(kind: str, rng: random.Random) -> Value:
    if rng.random() < 0.3:
        return None
    if kind == "truth":
        return rng.random() < 0.5
    if TYPES[kind] == pa.binary():
        return set_value(kind, {rng.randrange(9) for _ in range(4)})
    if kind == "text":
        return rng.choice(("", "a", "b", "cc"))
    return rng.choice([0, 1, -1, 7, 2**63 - 1, -(2**63), rng.randrange(-100, 100)])


def set_value(kind: str, numbers: set[int]) -> bytes:
    if kind == "bitmap":
        return BitMap(numbers).serialize()
    if kind == "long bitmap":
        return write_bitmaps({3: BitMap(numbers)})
    hll, theta = datasketches.hll_sketch(12), datasketches.update_theta_sketch()
    for number in sorted(numbers):
        hll.update(number)
        theta.update(number)
    return hll.serialize_compact() if kind == "hll" else theta.compact().serialize()


def held_content(kind: str, value: Value) -> Value:
    """The numbers of a set, or how many a sketch has: they may be written in several ways."""
    match kind:
        case "bitmap" if value is not None:
            return BitMap.deserialize(value)
        case "long bitmap" if value is not None:
            return read_bitmaps(value)
        case "hll" if value is not None:
            return round(datasketches.hll_sketch.deserialize(value).get_estimate(), 3)
    return value


def test_each_function_is_compared() -> None:
    compared_names = FOLDS.keys() | NESTED | {"primary-key"}
    assert compared_names == AGGREGATES.keys() == AGGREGATE_FUNCTIONS.keys()


@pytest.mark.parametrize("longest", [3, 60])
@pytest.mark.parametrize("only_adds", [True, False])
@pytest.mark.parametrize("name", FOLDS)
def test_a_function_folds_as_step_by_step(
    name: str, only_adds: bool, longest: int, seed: int
) -> None:
    rng = random.Random(f"{seed} {name}")
    kind, fold = FOLDS[name]
    allowed_ops = [
        ChangeOp.ADD,
        ChangeOp.ADD,
        ChangeOp.ADD_OLDER,
        ChangeOp.SET,
        ChangeOp.SKIP,
    ]
    if AGGREGATE_FUNCTIONS[name].accepts_retracts and fold.retract is not None:
        allowed_ops += [ChangeOp.RETRACT, ChangeOp.CLEAR]
    for _ in range(40):
        lengths = [rng.randrange(1, longest + 1) for _ in range(rng.randrange(1, 8))]
        count = sum(lengths)
        values = [value_of(kind, rng) for _ in range(count)]
        ops = [ChangeOp.ADD if only_adds else rng.choice(allowed_ops) for _ in range(count)]
        rows = rng.sample(range(count), count)
        starts = np.cumsum([0, *lengths[:-1]])
        changes = SegmentChanges(
            np.array(rows), starts, None if only_adds else np.array(ops, np.int8)
        )
        column = pa.array(values, TYPES[kind])
        result = fold_column(column, changes, ColumnAggregate(function=name))
        if isinstance(result, np.ndarray):
            result = column.take(pa.array(result, mask=result < 0))
        expected = [
            fold.run([(ops[index], values[rows[index]]) for index in range(start, start + length)])
            for start, length in zip(starts, lengths, strict=True)
        ]
        assert result.type == column.type
        assert [held_content(kind, value) for value in result.to_pylist()] == [
            held_content(kind, value) for value in expected
        ]


@pytest.mark.parametrize("name", [*sorted(FIRST), "max", "min", "bool_or", "listagg", "rbm32"])
def test_a_function_refuses_or_ignores_a_change_that_it_cannot_undo(name: str) -> None:
    kind = FOLDS[name][0]
    column = pa.array([None, None], TYPES[kind])
    changes = SegmentChanges(
        np.array([0, 1]), np.array([0]), np.array([ChangeOp.ADD, ChangeOp.RETRACT], np.int8)
    )
    with pytest.raises(MergeError, match=r"function \w+ cannot undo"):
        fold_column(column, changes, ColumnAggregate(function=name))
    fold_column(column, changes, ColumnAggregate(function=name, ignores_retract=True))


def test_sums_of_small_types_and_real_numbers() -> None:
    """100 values a segment: too many to go through one by one, but for real numbers."""
    changes = SegmentChanges(np.arange(200), np.array([0, 100]))
    small = pa.array([100] * 100 + [-100] * 100, pa.int8())
    aggregate = ColumnAggregate(function="sum")
    assert fold_column(small, changes, aggregate).to_pylist() == [
        wrapped_integer(10_000, 8),
        wrapped_integer(-10_000, 8),
    ]
    real = [0.1 * number for number in range(200)]
    expected = []
    for start in (0, 100):
        total = real[start]
        for number in real[start + 1 : start + 100]:
            total += number
        expected.append(total)
    assert fold_column(pa.array(real), changes, aggregate).to_pylist() == expected
    zeros = pa.array([None, -0.0] * 100)
    assert [str(value) for value in fold_column(zeros, changes, aggregate).to_pylist()] == [
        "-0.0",
        "-0.0",
    ]


def test_segments_with_other_ops_keep_the_known_newest_rows() -> None:
    changes = SegmentChanges(np.array([4, 0, 2, 3, 1]), np.array([0, 2]))
    assert changes.newest_row_indices.tolist() == changes.newest_values.tolist() == [0, 1]
    with_ops = changes.with_ops(
        np.array(
            [ChangeOp.ADD, ChangeOp.CLEAR, ChangeOp.ADD, ChangeOp.ADD, ChangeOp.ADD],
            np.int8,
        )
    )
    assert with_ops.newest_row_indices is changes.newest_row_indices
    assert with_ops.newest_values.tolist() == [-1, 1], "it follows from the ops"


def test_a_late_text_stands_before_the_others() -> None:
    column = pa.array(["b,b", "c", "a,b", "d,c"])
    ops = np.array([ChangeOp.ADD, ChangeOp.ADD, ChangeOp.ADD_OLDER, ChangeOp.ADD], np.int8)
    changes = SegmentChanges(np.arange(4), np.array([0]), ops)
    for distinct, text in ((False, "a,b,b,b,c,d,c"), (True, "a,b,c,d")):
        aggregate = ColumnAggregate(function="listagg", is_distinct=distinct)
        assert fold_column(column, changes, aggregate).to_pylist() == [text]


def test_long_decimals() -> None:
    kind = pa.decimal128(38, 2)
    column = pa.array([Decimal("-3.33"), None, Decimal(10) ** 35, Decimal("0.07")], kind)
    changes = SegmentChanges(np.arange(4), np.array([0, 2]))
    result = fold_column(column, changes, ColumnAggregate(function="sum"))
    assert result.to_pylist() == [Decimal("-3.33"), Decimal("1" + "0" * 35 + ".07")]
    result = fold_column(column, changes, ColumnAggregate(function="product"))
    assert result.to_pylist() == [Decimal("-3.33"), Decimal(7) * 10**33]
