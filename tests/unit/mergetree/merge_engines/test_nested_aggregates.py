"""Each function of nested columns beside a fold that goes step by step, as Paimon's does."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_app.mergetree.merge_engines.aggregates.registry import folded
from stream_app.mergetree.merge_engines.aggregates.steps import Op, Steps
from stream_app.mergetree.value_codes import same_values, value_codes
from stream_app.model.schema.merge_rules import ColumnAggregate

Value = Any
ROWS = pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string()), ("v", pa.int32())]))
MAP = pa.map_(pa.string(), pa.int32())
TIMED = pa.map_(pa.string(), pa.struct([("v", pa.int32()), ("ts", pa.string())]))
KEY = ("a", "b")
LIMIT = 3


@dataclass(frozen=True)
class Fold:
    """One function: `add` and `take_back` give the next value of two that are not null."""

    kind: pa.DataType
    add: Callable[[Value, Value], Value]
    take_back: Callable[[Value, Value], Value] | None = None
    late: Callable[[Value, Value], Value] | None = None
    alone: Callable[[Value], Value] = lambda value: value

    def next(self, op: Op, so_far: Value, value: Value) -> Value:
        match op:
            case Op.SKIP:
                return so_far
            case Op.CLEAR:
                return None
            case Op.SET:
                return value
            case Op.TAKE_BACK:
                assert self.take_back is not None
                lacks = so_far is None or value is None
                return so_far if lacks else self.take_back(so_far, value)
        if so_far is None or value is None:
            one = value if so_far is None else so_far
            return None if one is None else self.alone(one)
        if op is Op.ADD_OLDER:
            late = self.late or (lambda acc, old: self.add(old, acc))
            return late(so_far, value)
        return self.add(so_far, value)


def once(values: Value) -> Value:
    return [each for at, each in enumerate(values) if each not in values[:at]]


def without(values: Value, gone: Value) -> Value:
    left, kept = list(gone), []
    for each in values:
        if each in left:
            left.remove(each)
        else:
            kept.append(each)
    return kept


def by_key(rows: Value) -> dict[Value, Value]:
    return {tuple(row[name] for name in KEY): row for row in full(rows)}


def full(rows: Value) -> Value:
    return [row for row in rows if row is not None]


def limited(there: Value, new: Value) -> Value:
    if len(there) >= LIMIT:
        return there
    return full(there) + full(new)[: LIMIT - len(there)]


def limited_by_key(there: Value, new: Value) -> Value:
    return there if len(there) >= LIMIT else [*by_key(limited(there, new)).values()]


def partial(rows: Value) -> Value:
    found: dict[Value, Value] = {}
    for row in full(rows):
        key = tuple(row[name] for name in KEY)
        told = {name: value for name, value in row.items() if value is not None}
        found[key] = found.get(key, dict.fromkeys(row)) | told
    return [*found.values()]


def timed(there: Value, new: Value) -> Value:
    found = dict(there)
    for key, row in new:
        if row is None:
            found.pop(key, None)
        elif row["ts"] is not None:
            old = found.get(key)
            if old is None or old["ts"] is None or row["ts"] > old["ts"]:
                found[key] = row
    return [*found.items()]


def less_keys(there: Value, gone: Value) -> Value:
    return [row for key, row in by_key(there).items() if key not in by_key(gone)]


FOLDS = {
    ColumnAggregate(function="collect"): Fold(
        ROWS, lambda a, b: a + b, without, lambda acc, old: acc + old
    ),
    ColumnAggregate(function="collect", distinct=True): Fold(
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
        ROWS, limited, lambda a, b: [row for row in full(a) if row not in full(b)]
    ),
    ColumnAggregate(function="nested_update", count_limit=LIMIT, nested_key=KEY): Fold(
        ROWS, limited_by_key, less_keys
    ),
    ColumnAggregate(function="nested_partial_update", nested_key=KEY): Fold(
        ROWS, lambda a, b: partial(a + b)
    ),
    ColumnAggregate(function="merge_map_with_keytime", time_field="ts"): Fold(TIMED, timed),
}
NESTED = {how.function for how in FOLDS}


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
@pytest.mark.parametrize("how", FOLDS, ids=lambda how: f"{how.function} {how.distinct}")
@pytest.mark.slow
def test_a_function_folds_as_step_by_step(how: ColumnAggregate, only_adds: bool, seed: int) -> None:
    fold, rng = FOLDS[how], random.Random(f"{seed} {how}")
    allowed = [Op.ADD, Op.ADD, Op.ADD, Op.ADD_OLDER, Op.SKIP]
    allowed += [Op.TAKE_BACK, Op.TAKE_BACK, Op.CLEAR] if fold.take_back else []
    for _ in range(60):
        lengths = [rng.randrange(1, rng.choice([4, 25])) for _ in range(rng.randrange(1, 6))]
        count = sum(lengths)
        values = [value_of(fold.kind, rng) for _ in range(count)]
        ops = [Op.ADD if only_adds else rng.choice(allowed) for _ in range(count)]
        starts = np.cumsum([0, *lengths[:-1]])
        if not only_adds:
            for start in starts:
                ops[start] = rng.choice([Op.SET, ops[start]])
        rows = rng.sample(range(count), count)
        given = None if only_adds else np.array(ops, np.int8)
        steps = Steps(np.array(rows), starts, given, merges_alone=True)
        column = pa.array([None, *values], fold.kind).slice(1)
        found = folded(column, steps, how)
        if isinstance(found, np.ndarray):
            found = column.take(pa.array(found, mask=found < 0))
        wanted: list[Value] = []
        for start, length in zip(starts, lengths, strict=True):
            so_far = None
            for at in range(start, start + length):
                so_far = fold.next(ops[at], so_far, values[rows[at]])
            wanted.append(so_far)
        assert found.type == column.type
        assert found.to_pylist() == wanted


@pytest.mark.parametrize(
    "how", [how for how in FOLDS if how.count_limit == LIMIT or how.time_field], ids=repr
)
def test_only_the_values_of_the_steps_are_looked_at(how: ColumnAggregate) -> None:
    """Merges work on slices of long columns."""
    count, length = 100_000, 10
    fold, rng = FOLDS[how], random.Random(1)
    values = [value_of(fold.kind, rng) for _ in range(length)]
    column = pa.array([*values, *values * (count // length), None], fold.kind).slice(length, length)
    steps = Steps(np.arange(length), np.array([0]))
    wanted = folded(pa.array(values, fold.kind), steps, how)
    tracemalloc.start()
    found = folded(column, steps, how)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(found, pa.Array)
    assert found.equals(wanted)
    assert peak < count, "less than a byte a value, where codes of all take eight"


def test_a_value_that_no_merge_touches_keeps_its_duplicates() -> None:
    column = pa.array([[1, 1], [2, 2], None], pa.list_(pa.int32()))
    how = ColumnAggregate(function="collect", distinct=True)
    steps = Steps(np.array([0, 1, 2]), np.array([0, 1]))
    found = folded(column, steps, how)
    assert isinstance(found, pa.Array)
    assert found.to_pylist() == [[1, 1], [2]]


@pytest.mark.parametrize("kind", [ROWS, MAP, TIMED, pa.list_(pa.list_(pa.float64()))])
def test_codes_are_equal_where_values_are(kind: pa.DataType, seed: int) -> None:
    """Also of slices; maps in any order of their entries, NaN like NaN, and 0.0 unlike -0.0."""
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
    for at, text in enumerate(texts):
        assert (codes == codes[at]).tolist() == [text == other for other in texts]
    order = rng.sample(range(len(values)), len(values))
    shuffled = column.take(pa.array(order))
    assert same_values(column, shuffled).tolist() == [
        text == texts[at] for text, at in zip(texts, order, strict=True)
    ]
