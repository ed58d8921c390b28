"""Each function of nested columns equals a fold of single steps as Paimon's."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from stream_app.mergetree.merge_engines.aggregates.aggregate_registry import fold_column
from stream_app.mergetree.merge_engines.aggregates.segment_changes import ChangeOp, SegmentChanges
from stream_app.mergetree.value_codes import has_same_values, value_codes
from stream_app.model.schema.merge.merge_rules import ColumnAggregate
from tests.support.histories.nested_values import FOLDS, LIMIT, MAP, ROWS, TIMED, Value, once


def value_of(kind: pa.DataType, rng: random.Random) -> Value:
    if rng.random() < 0.2:
        return None
    if kind == MAP:
        keys = rng.sample(["", "a", "b"], rng.randrange(4))
        return [(key, rng.choice([None, 1, 2])) for key in keys]
    if kind == TIMED:
        keys = rng.sample(["", "a", "b"], rng.randrange(4))
        rows = [
            None,
            *({"v": rng.randrange(9), "ts": rng.choice([None, *"123"])} for _ in range(4)),
        ]
        return [(key, rng.choice(rows)) for key in keys]
    rows = [
        {"a": rng.choice([None, 1, 2]), "b": rng.choice([None, "x"]), "v": rng.choice([None, 7])}
        for _ in range(rng.randrange(4))
    ]
    return once([*rows, None][:: rng.choice([1, -1])] if rng.random() < 0.3 else rows)


@pytest.mark.parametrize("only_adds", [True, False])
@pytest.mark.parametrize(
    "aggregate", FOLDS, ids=lambda aggregate: f"{aggregate.function} {aggregate.is_distinct}"
)
@pytest.mark.slow
def test_a_function_folds_as_step_by_step(
    aggregate: ColumnAggregate, only_adds: bool, seed: int
) -> None:
    fold, rng = FOLDS[aggregate], random.Random(f"{seed} {aggregate}")
    allowed_ops = [
        ChangeOp.ADD,
        ChangeOp.ADD,
        ChangeOp.ADD,
        ChangeOp.ADD_OLDER,
        ChangeOp.SKIP,
    ]
    allowed_ops += [ChangeOp.RETRACT, ChangeOp.RETRACT, ChangeOp.CLEAR] if fold.retract else []
    for _ in range(60):
        lengths = [rng.randrange(1, rng.choice([4, 25])) for _ in range(rng.randrange(1, 6))]
        count = sum(lengths)
        values = [value_of(fold.kind, rng) for _ in range(count)]
        ops = [ChangeOp.ADD if only_adds else rng.choice(allowed_ops) for _ in range(count)]
        starts = np.cumsum([0, *lengths[:-1]])
        if not only_adds:
            for start in starts:
                ops[start] = rng.choice([ChangeOp.SET, ops[start]])
        rows = rng.sample(range(count), count)
        operations = None if only_adds else np.array(ops, np.int8)
        changes = SegmentChanges(np.array(rows), starts, operations, merges_single_rows=True)
        column = pa.array([None, *values], fold.kind).slice(1)
        result = fold_column(column, changes, aggregate)
        if isinstance(result, np.ndarray):
            result = column.take(pa.array(result, mask=result < 0))
        expected: list[Value] = []
        for start, length in zip(starts, lengths, strict=True):
            so_far = None
            for index in range(start, start + length):
                so_far = fold.next(ops[index], so_far, values[rows[index]])
            expected.append(so_far)
        assert result.type == column.type
        assert result.to_pylist() == expected


@pytest.mark.parametrize(
    "aggregate",
    [aggregate for aggregate in FOLDS if aggregate.count_limit == LIMIT or aggregate.time_field],
    ids=repr,
)
def test_only_the_values_of_the_changes_are_looked_at(aggregate: ColumnAggregate) -> None:
    """Merges work on slices of long columns."""
    count, length = 100_000, 10
    fold, rng = FOLDS[aggregate], random.Random(1)
    values = [value_of(fold.kind, rng) for _ in range(length)]
    column = pa.array([*values, *values * (count // length), None], fold.kind).slice(length, length)
    changes = SegmentChanges(np.arange(length), np.array([0]))
    expected = fold_column(pa.array(values, fold.kind), changes, aggregate)
    tracemalloc.start()
    result = fold_column(column, changes, aggregate)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(result, pa.Array)
    assert result.equals(expected)
    assert peak < count, "less than a byte a value, where codes of all take eight"


def test_a_value_that_no_merge_touches_keeps_its_duplicates() -> None:
    column = pa.array([[1, 1], [2, 2], None], pa.list_(pa.int32()))
    aggregate = ColumnAggregate(function="collect", is_distinct=True)
    changes = SegmentChanges(np.array([0, 1, 2]), np.array([0, 1]))
    result = fold_column(column, changes, aggregate)
    assert isinstance(result, pa.Array)
    assert result.to_pylist() == [[1, 1], [2]]


@pytest.mark.parametrize("kind", [ROWS, MAP, TIMED, pa.list_(pa.list_(pa.float64()))])
def test_codes_are_equal_where_values_are(kind: pa.DataType, seed: int) -> None:
    """Slices and maps of any order agree; NaN equals NaN, and 0.0 differs from -0.0."""
    rng = random.Random(seed)
    if pa.types.is_list(kind) and pa.types.is_list(kind.value_type):
        reals = [None, 0.0, -0.0, float("nan"), 1.5]
        values: list[Value] = [
            [rng.choice(reals) for _ in range(rng.randrange(3))] if rng.random() < 0.8 else None
            for _ in range(50)
        ]
        values = [None if v is None else [v] for v in values]
    else:
        values = [value_of(kind, rng) for _ in range(80)]
    column = pa.array([values[0], *values], kind).slice(1)
    texts = [repr(sorted(v, key=repr) if pa.types.is_map(kind) and v else v) for v in values]
    codes = value_codes(column)
    assert [code == 0 for code in codes] == [value is None for value in values]
    for row, text in enumerate(texts):
        assert (codes == codes[row]).tolist() == [text == other for other in texts]
    order = rng.sample(range(len(values)), len(values))
    shuffled_column = column.take(pa.array(order))
    assert has_same_values(column, shuffled_column).tolist() == [
        text == texts[row] for text, row in zip(texts, order, strict=True)
    ]
