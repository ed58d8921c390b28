"""Unites sets of numbers in byte columns: Roaring bitmaps, and sketches that count distinct values.

A C++ library parses each value into an object, so values are united one by one. A segment's only
value stays unchanged. Paimon can read the resulting bytes.

Source: Paimon 1.4 `mergetree/compact/aggregate/FieldRoaringBitmap{32,64}Agg.java`,
`FieldHllSketchAgg.java`, `FieldThetaSketchAgg.java`, `utils/{HllSketchUtil,ThetaSketch}.java`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from stream_app.arrow_buffers import Int64s
from stream_app.errors import MergeError
from stream_app.mergetree.merge_engines.aggregates.combined_values import (
    combine_segments,
    is_counted_change,
)
from stream_app.mergetree.merge_engines.aggregates.roaring64 import (
    read_bitmaps,
    unite_bitmaps,
    write_bitmaps,
)
from stream_app.mergetree.merge_engines.aggregates.segment_changes import (
    SegmentChanges,
    SegmentValues,
)
from stream_app.model.schema.merge.merge_rules import ColumnAggregate

Union = Callable[[Sequence[bytes]], bytes]
"""Unites two values or more, in the order of their rows."""
SKETCHES = frozenset({"hll_sketch", "theta_sketch"})
"""Functions that need the package ``datasketches``."""
_UNREADABLE = (ValueError, LookupError, RuntimeError, struct.error)
_LG_THETA = 12
"""The binary logarithm of the number of hashes that Paimon's unions keep."""
_ONE_HASH = 1
_HLL_HEAD_SIZE, _HLL_EXCEPTIONS_START = 40, 36
"""In a sketch of 4 bits a bucket, the bytes before the buckets, and those before the number of
exceptions."""
_HLL_MODE, _HLL_4_BITS, _EXCEPTION_MARK = 0b1111, 0b0010, 15


def union_of(function: str) -> Callable[[pa.Array, SegmentChanges, ColumnAggregate], SegmentValues]:
    """Return an aggregate function that unites the values that are not null."""
    union = UNIONS[function]

    def unite(values: pa.Array, bounds: Int64s) -> pa.Array:
        sets = values.to_pylist()
        try:
            unions = [union(sets[start:end]) for start, end in pairwise(bounds.tolist())]
            return pa.array(unions, values.type)
        except _UNREADABLE as error:
            raise _unreadable_value(function, error) from error

    def fold(column: pa.Array, changes: SegmentChanges, _: ColumnAggregate) -> SegmentValues:
        changes.refuse_retract(function)
        return combine_segments(column, changes, is_counted_change(column, changes), unite)

    return fold


def unreadable_set(function: str, value: bytes) -> str | None:
    """Return the reason why a value cannot be united with others; None if it can."""
    try:
        UNIONS[function]([value, value])
    except _UNREADABLE as error:
        return str(error) or type(error).__name__
    return None


def missing_package(function: str) -> str | None:
    """Return the missing package that a function needs; None if it is installed."""
    is_missing = function in SKETCHES and find_spec("datasketches") is None
    return "datasketches" if is_missing else None


def union_of_bitmaps(values: Sequence[bytes]) -> bytes:
    """Unite bitmaps, for ``rbm32``: portable format with runs, byte for byte as Java writes."""
    bitmap = BitMap.union(*(BitMap.deserialize(value) for value in values))
    bitmap.run_optimize()
    return bytes(bitmap.serialize())


def union_of_long_bitmaps(values: Sequence[bytes]) -> bytes:
    """Unite bitmaps of 64-bit numbers, for ``rbm64``."""
    return write_bitmaps(unite_bitmaps(map(read_bitmaps, values)))


def union_of_hll_sketches(values: Sequence[bytes]) -> bytes:
    """Unite sketches, for ``hll_sketch``: compact, with 4 bits for each register.

    As Paimon does, it merges pairwise and serializes each result. Each sketch limits the number of
    buckets of the result, and the estimate depends on the order of the sketches.
    """
    import datasketches  # noqa: PLC0415 - an extra, and slow to load

    united_sketch = values[0]
    for value in values[1:]:
        _check_hll(value)
        _check_hll(united_sketch)
        sketch = datasketches.hll_sketch.deserialize(value)
        union = datasketches.hll_union(sketch.lg_config_k)
        union.update(sketch)
        union.update(datasketches.hll_sketch.deserialize(united_sketch))
        united_sketch = bytes(union.get_result(datasketches.tgt_hll_type.HLL_4).serialize_compact())
    return united_sketch


def union_of_theta_sketches(values: Sequence[bytes]) -> bytes:
    """Unite sketches, for ``theta_sketch``: compact and ordered."""
    import datasketches  # noqa: PLC0415 - an extra, and slow to load

    union = datasketches.theta_union(_LG_THETA)
    for value in values:
        union.update(datasketches.compact_theta_sketch.deserialize(value))
    result = bytes(union.get_result(True).serialize())
    if result[0] > _ONE_HASH:
        # Java writes 1 for the sampling probability, which compact sketches do not use; C++ writes
        # nothing.
        result = result[:12] + struct.pack("<f", 1.0) + result[16:]
    return result


UNIONS: Mapping[str, Union] = {
    "hll_sketch": union_of_hll_sketches,
    "rbm32": union_of_bitmaps,
    "rbm64": union_of_long_bitmaps,
    "theta_sketch": union_of_theta_sketches,
}
"""The value of ``fields.<column>.aggregate-function`` → the function."""


def _check_hll(data: bytes) -> None:
    """Refuse an HLL sketch that announces exceptions but has none, because the library would crash.

    Source: Apache DataSketches `HllUtil.java`, `PreambleUtil.java`.

    Raises:
        ValueError: the sketch announces exceptions but has none.
    """
    if len(data) <= _HLL_HEAD_SIZE or data[7] & _HLL_MODE != _HLL_4_BITS:
        return  # the library refuses short bytes, and other forms have no exceptions
    if any(data[_HLL_EXCEPTIONS_START:_HLL_HEAD_SIZE]):
        return  # the library searches them for the bucket, and reports a missing one
    buckets = np.frombuffer(data, np.uint8, offset=_HLL_HEAD_SIZE)
    if (buckets >> 4 == _EXCEPTION_MARK).any() or (
        buckets & _EXCEPTION_MARK == _EXCEPTION_MARK
    ).any():
        raise ValueError("a bucket of the sketch is an exception, and the sketch lists none")


def _unreadable_value(function: str, error: Exception) -> MergeError:
    return MergeError(
        f"the aggregate function {function} cannot read a value: {error}",
        fix=f"write only values that {function} makes, or use another aggregate function",
    )
