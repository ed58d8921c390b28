"""Where a column of type ARRAY, MAP or ROW cannot stand, and what cannot stand inside one.

Source: Paimon `schema/SchemaValidation.java`, `format/parquet/ParquetSchemaConverter.java`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.table_options import BUCKET_KEY, SEQUENCE_FIELD
from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    RowType,
    TypeRoot,
)
from stream_app.model.schema.merge_rules import sequence_groups

_INT64_DIGITS = 6
"""Fractional digits of a timestamp that Parquet stores as INT64; finer ones are INT96."""
_NO_KEYS = FLOAT_ROOTS | BINARY_ROOTS
"""Java compares bytes by identity: each would be a key of its own."""


def nested_problems(
    columns: RowType,
    primary_keys: Collection[str],
    partition_keys: Collection[str],
    options: Mapping[str, str],
) -> list[str]:
    """Why the nested columns of a table cannot be stored as they are; empty when they can."""
    nested = {column.name: column.data_type for column in columns if column.data_type.is_nested}
    if not nested:
        return []
    core = CoreOptions(options)
    groups = {name for sequence, _ in sequence_groups(options) for name in sequence}
    uses: dict[str, Collection[str]] = {
        "primary-keys": primary_keys,
        "partition-keys": partition_keys,
        "bucket-key": core.columns(BUCKET_KEY),
        "sequence.field": core.columns(SEQUENCE_FIELD),
        "the sequence of a sequence-group": groups,
    }
    problems = [
        f"{what} names {name!r}, which is {nested[name]}: use a column of a scalar type"
        for what, names in uses.items()
        for name in dict.fromkeys(names)
        if name in nested
    ]
    for name, data_type in nested.items():
        problems += [f"column {name!r} is {data_type}: {why}" for why in _inner_problems(data_type)]
    one = next(iter(nested))
    problems += [
        f"column {column.name!r} is {column.data_type} beside the nested column {one!r}: give it "
        f"{_INT64_DIGITS} fractional digits at most"
        for column in columns
        if not column.data_type.is_nested and _is_fine(column.data_type)
    ]
    problems += [
        f"column {column.name!r} is nested and has the default {column.default_value!r}: leave it "
        "out"
        for column in columns
        if column.name in nested and column.default_value is not None
    ]
    return problems


def _inner_problems(data_type: DataType) -> Iterator[str]:
    if data_type.root is TypeRoot.ROW and not data_type.fields:
        yield "a ROW needs a field"
    key = data_type.key
    if key is not None and (key.is_nested or key.root in _NO_KEYS):
        yield f"the key of a MAP cannot be {key}"
    for inner in data_type.inner:
        if _is_fine(inner):
            yield f"inside it a time can have {_INT64_DIGITS} fractional digits at most"
        if inner.is_nested:
            yield from _inner_problems(inner)


def _is_fine(data_type: DataType) -> bool:
    return data_type.root in TIMESTAMP_ROOTS and data_type.precision > _INT64_DIGITS
