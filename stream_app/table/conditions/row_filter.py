"""Parses a condition on rows, and finds the buckets that can match it.

A condition is text or an Arrow expression. Both filter rows and are compared with statistics. Only
text also determines buckets, because Arrow expressions are opaque.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.errors import StreamAppError, UsageError
from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.binary_row import encode_row
from stream_app.format.bucket_hash import murmur_hash
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.schema.table_schema import TableSchema
from stream_app.predicate.parser import parse_predicate
from stream_app.predicate.predicate import Predicate, column_names, possible_values, to_expression
from stream_app.predicate.predicate_functions import CONDITION_FUNCTIONS

_KEYS_MAX = 1000
"""The number of keys beyond which most buckets have one of the keys, so that pruning is useless."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A filter that keeps the rows for which the expression is true.

    Attributes:
        columns: the columns of the expression.
        bucket_pruning: the buckets that can have a matching row; None: any.
        predicate: the parsed condition; None for an Arrow expression, which is opaque.
    """

    expression: pc.Expression
    columns: tuple[str, ...]
    bucket_pruning: BucketPruning | None = None
    predicate: Predicate | None = None


def row_filter(where: str | pc.Expression, schema: TableSchema) -> RowFilter:
    """Parse a condition: ``amount > 5 AND dt = '2026-01-01'``, or ``pc.field("amount") > 5``.

    Raises:
        UsageError: the condition is wrong; the error shows where.
    """
    if isinstance(where, str):
        return predicate_filter(parse_predicate(where, schema.fields, CONDITION_FUNCTIONS), schema)
    return RowFilter(where, _columns_of(where, arrow_schema(schema.fields)))


def predicate_filter(predicate: Predicate, schema: TableSchema) -> RowFilter:
    """Return the filter of a parsed condition."""
    pruning = bucket_pruning(predicate, schema)
    return RowFilter(to_expression(predicate), column_names(predicate), pruning, predicate)


def _columns_of(expression: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    """Return the expression's columns, by trial bindings, because Arrow does not list them."""
    if (problem := _problem(expression, schema)) is not None:
        raise UsageError(
            f"the condition does not fit the table's columns: {problem}",
            where=str(expression),
            fix="use the table's columns and their types: "
            + ", ".join(f"{field.name} {field.type}" for field in schema),
        )
    reduced_schemas = [schema.remove(index) for index in range(len(schema))]
    return tuple(
        name
        for name, reduced_schema in zip(schema.names, reduced_schemas, strict=True)
        if _problem(expression, reduced_schema) is not None
    )


def _problem(expression: pc.Expression, schema: pa.Schema) -> str | None:
    try:
        schema.empty_table().filter(expression)
    except (pa.ArrowException, TypeError) as error:
        return str(error)
    return None


@dataclass(frozen=True, slots=True)
class BucketPruning:
    """A test that skips buckets by the hashes of the bucket keys that can match."""

    key_hashes: frozenset[int]

    def may_hold(self, entry: ManifestEntry) -> bool:
        """Return whether a row of this entry's bucket can match."""
        count = entry.total_buckets
        # Java's remainder keeps the sign of the hash; its absolute value is the bucket.
        return count < 1 or any(
            abs(key_hash) % count == entry.bucket for key_hash in self.key_hashes
        )


def key_types_predicate(
    schema: TableSchema, schema_of: Callable[[int], TableSchema]
) -> Callable[[int], bool]:
    """Return a predicate: whether a schema's files have keys in the buckets of the current types.

    It is False after ALTER TYPE of a bucket key, which Paimon allows without a primary key.
    """
    current_types = schema.bucket_key_types

    def has_current_key_types(schema_id: int) -> bool:
        try:
            return schema_of(schema_id).bucket_key_types == current_types
        except (FileNotFoundError, StreamAppError):
            return False  # the read of the file reports the error

    return has_current_key_types


def bucket_pruning(predicate: Predicate, schema: TableSchema) -> BucketPruning | None:
    """Return the pruning by bucket keys that a condition allows; None if it allows any."""
    keys = schema.bucket_keys
    values_of_keys = [possible_values(predicate, name) for name in keys]
    value_sets = [values for values in values_of_keys if values is not None]
    if not keys or not schema.core_options.hashes_by_default or len(value_sets) < len(keys):
        return None
    if prod(len(values) for values in value_sets) > _KEYS_MAX:
        return None
    types = schema.fields.project(keys).types
    return BucketPruning(
        frozenset(murmur_hash(encode_row(values, types)) for values in product(*value_sets))
    )
