"""The lookup finds the keys that a file's rows have, for keys of any type."""

from __future__ import annotations

import decimal
import itertools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.mergetree.lookup.key_lookup import key_matches

TYPES: dict[str, Sequence[Any]] = {
    "int64": [-(2**62), -5, 0, 3, 2**62],
    "string": ["", "a", "ab", "b", "é"],
    "binary": [b"", b"\x00", b"a", b"\xff"],
    "date32": [-1, 0, 5, 20_000],
    "decimal": [decimal.Decimal(number) / 100 for number in (-5, 0, 7, 10**15)],
}
ARROW = {
    "int64": pa.int64(), "string": pa.string(), "binary": pa.binary(), "date32": pa.date32(),
    "decimal": pa.decimal128(18, 2),
}  # fmt: skip


def a_batch(kinds: Sequence[str], keys: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [
        pa.array([key[place] for key in keys], ARROW[kind]) for place, kind in enumerate(kinds)
    ]
    names = [f"k{place}" for place in range(len(kinds))]
    return pa.RecordBatch.from_arrays(columns, names)


@pytest.mark.parametrize(
    "kinds", [("int64",), ("date32",), ("string",), ("decimal",), ("int64", "string"),
              ("string", "binary", "int64")],
    ids="-".join,
)  # fmt: skip
@given(data=st.data())
@pytest.mark.slow
def test_key_matches_equal_those_of_a_dictionary(
    kinds: tuple[str, ...], data: st.DataObject
) -> None:
    universe = list(itertools.product(*(TYPES[kind] for kind in kinds)))
    place_sets = st.sets(st.sampled_from(range(len(universe))))
    wanted_keys, stored_keys = (
        sorted(universe[place] for place in data.draw(place_sets)) for _ in ("keys", "rows")
    )
    keys, rows = a_batch(kinds, wanted_keys), a_batch(kinds, stored_keys)
    key_indices, row_indices = key_matches(keys, rows, keys.schema.names)
    matches = dict(zip(key_indices.tolist(), row_indices.tolist(), strict=True))
    assert {wanted_keys[key]: stored_keys[row] for key, row in matches.items()} == {
        key: key for key in wanted_keys if key in set(stored_keys)
    }
    assert key_indices.tolist() == sorted(key_indices.tolist())
