"""For each aggregate function a type of column that it takes, and two values of it."""

from __future__ import annotations

from typing import Any

import datasketches
from pyroaring import BitMap

from stream_app.mergetree.merge_engines.aggregates.roaring64 import write_bitmaps


def _hll(number: int) -> bytes:
    sketch = datasketches.hll_sketch(12, datasketches.tgt_hll_type.HLL_4)
    sketch.update(number)
    return bytes(sketch.serialize_compact())


def _theta(number: int) -> bytes:
    sketch = datasketches.update_theta_sketch(12)
    sketch.update(number)
    return bytes(sketch.compact().serialize())


def _bitmap64(number: int) -> bytes:
    return write_bitmaps({0: BitMap([number])})


_ROWS = ("ARRAY<ROW<a INT, b STRING>>", [{"a": 1, "b": "x"}], [{"a": 2, "b": "y"}])
FUNCTION_COLUMNS: dict[str, tuple[str, Any, Any]] = {
    "bool_and": ("BOOLEAN", True, False),
    "bool_or": ("BOOLEAN", True, False),
    "collect": ("ARRAY<INT>", [1, 2], [2, 3]),
    "first_non_null_value": ("INT", 6, 2),
    "first_not_null_value": ("INT", 6, 2),
    "first_value": ("INT", 6, 2),
    "last_non_null_value": ("INT", 6, 2),
    "last_value": ("INT", 6, 2),
    "hll_sketch": ("BYTES", _hll(1), _hll(2)),
    "listagg": ("STRING", "a", "b"),
    "max": ("INT", 6, 2),
    "merge_map": ("MAP<STRING, INT>", [("a", 1)], [("b", 2)]),
    "merge_map_with_keytime": (
        "MAP<STRING, ROW<v INT, t STRING>>",
        [("a", {"v": 1, "t": "1"})],
        [("b", {"v": 2, "t": "2"})],
    ),
    "min": ("INT", 6, 2),
    "nested_partial_update": _ROWS,
    "nested_update": _ROWS,
    "product": ("INT", 6, 2),
    "rbm32": ("BYTES", BitMap([1]).serialize(), BitMap([2]).serialize()),
    "rbm64": ("BYTES", _bitmap64(1), _bitmap64(2)),
    "sum": ("INT", 6, 2),
    "theta_sketch": ("BYTES", _theta(1), _theta(2)),
}
NEEDED_OPTIONS = {"nested_partial_update": {"fields.v.nested-key": "a"}}
"""Options that a function cannot do without, for a column ``v``."""
