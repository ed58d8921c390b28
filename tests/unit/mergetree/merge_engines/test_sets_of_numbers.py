"""Bitmaps of 64-bit numbers have Java's bytes; malformed values and missing packages are errors."""

from __future__ import annotations

import random
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from stream_app.errors import MergeError, UnsupportedTableError
from stream_app.mergetree.merge_engines.aggregates.aggregate_registry import fold_column
from stream_app.mergetree.merge_engines.aggregates.roaring64 import (
    Bitmaps,
    read_bitmaps,
    write_bitmaps,
)
from stream_app.mergetree.merge_engines.aggregates.segment_changes import SegmentChanges
from stream_app.mergetree.merge_engines.aggregates.unions import SKETCHES
from stream_app.mergetree.merge_engines.merge_engine_registry import merge_function_of
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.merge.merge_rules import ColumnAggregate
from stream_app.model.schema.table_schema import new_table_schema

JAVA = bytes.fromhex(
    "010300000000000000000200000000ff0000020001000000010004000000000000000000000000000000000004"
    "000000000001000000010000000000000004000000ffffffffffff020000000000000001000000fe0300000001"
    "02030000000100020003000102010000000000010201000000fbff03000000000000000000000002000000"
)
"""What Paimon's RoaringBitmap64 writes of 1, 2, 3, 2^40 and -5."""

TWO = SegmentChanges(np.arange(2), np.array([0]))
"""One key with two rows."""


def bitmaps(numbers: set[int]) -> Bitmaps:
    maps: dict[int, BitMap] = {}
    for number in numbers:
        maps.setdefault(number >> 32 & 0xFFFF_FFFF, BitMap()).add(number & 0xFFFF_FFFF)
    return maps


def test_the_bytes_are_those_of_java() -> None:
    numbers = bitmaps({1, 2, 3, 1 << 40, -5})
    assert write_bitmaps(numbers) == JAVA
    assert read_bitmaps(JAVA) == numbers
    assert write_bitmaps({}) == b"\0"
    assert read_bitmaps(b"\0") == {}


@pytest.mark.parametrize("fork", [1, 2, 4, 5, 16, 17, 48, 49, 256])
def test_nodes_of_every_size(fork: int, seed: int) -> None:
    """Nodes with this many children, on two levels below a common prefix; runs, bits and lists."""
    rng = random.Random(seed)
    highs = rng.sample(range(256), fork)
    numbers = {high << 48 | high << 24 | rng.randrange(9) for high in highs}
    numbers |= {1 << 57 | high << 40 for high in highs}
    numbers |= set(range(1 << 20, (1 << 20) + 70_000))
    numbers |= {1 << 30 | rng.randrange(1 << 16) for _ in range(9000)}
    assert read_bitmaps(write_bitmaps(bitmaps(numbers))) == bitmaps(numbers)


@pytest.mark.parametrize("function", sorted({"rbm32", "rbm64", *SKETCHES}))
@pytest.mark.parametrize("value", [b"", b"\1", b"no bitmap and no sketch"])
def test_a_value_that_holds_no_set_is_named(function: str, value: bytes) -> None:
    with pytest.raises(MergeError, match=f"function {function} cannot read a value"):
        fold_column(pa.array([value, value]), TWO, ColumnAggregate(function=function))


@pytest.mark.parametrize("place", [40, 300, -1])
def test_a_sketch_whose_bucket_lacks_its_value_does_not_end_the_process(place: int) -> None:
    """The library follows a null pointer then; 15 in four bits says that the value is elsewhere."""
    datasketches = pytest.importorskip("datasketches")  # not there for each Python

    whole = datasketches.hll_sketch(12, datasketches.tgt_hll_type.HLL_4)
    for number in range(3000):
        whole.update(number)
    good = bytes(whole.serialize_compact())
    torn = bytearray(good)
    torn[place] |= 0x0F
    for values in ([good, bytes(torn)], [bytes(torn), good]):
        with pytest.raises(MergeError, match="hll_sketch cannot read a value: a bucket"):
            fold_column(pa.array(values), TWO, ColumnAggregate(function="hll_sketch"))
    assert fold_column(pa.array([good, good]), TWO, ColumnAggregate(function="hll_sketch"))


def test_a_bitmap_whose_tree_names_no_container_is_named() -> None:
    leaf = bytes.fromhex("000001000000") + (1).to_bytes(8, "little")
    torn = JAVA.replace(leaf, leaf[:6] + (9).to_bytes(8, "little"))
    with pytest.raises(MergeError, match="rbm64 cannot read a value: 9"):
        fold_column(pa.array([JAVA, torn]), TWO, ColumnAggregate(function="rbm64"))


def test_a_function_without_its_package_is_refused_at_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "theta_sketch"}
    schema = new_table_schema(
        columns=parse_columns("k INT, v BYTES"), primary_keys=("k",), partition_keys=(),
        options={"bucket": "1", **options}, time_ms=0,
    )  # fmt: skip
    merge_function_of(schema)
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(UnsupportedTableError, match="theta_sketch needs the package datasketches"):
        merge_function_of(schema)
