"""A condition on the rows of a table, from text or as Arrow's expression.

Both filter rows and are held against statistics; from text it is also known which buckets can hold
a row that passes, for Arrow's expressions cannot be looked into.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.errors import UsageError
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.table_schema import TableSchema
from stream_app.predicate.parser import parse_predicate
from stream_app.predicate.predicate import Predicate, column_names, to_expression
from stream_app.table.versions.bucket_pruning import BucketPruning, bucket_pruning


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Keeps the rows for which the expression is true.

    Attributes:
        columns: those that it looks at.
        buckets: the only ones that can hold a row that passes; None: any.
    """

    expression: pc.Expression
    columns: tuple[str, ...]
    buckets: BucketPruning | None = None


def row_filter(where: str | pc.Expression, schema: TableSchema) -> RowFilter:
    """A condition such as ``amount > 5 AND dt = '2026-01-01'``, or ``pc.field("amount") > 5``.

    Raises:
        UsageError: points at what is wrong with it.
    """
    if isinstance(where, str):
        return predicate_filter(parse_predicate(where, schema.fields), schema)
    return RowFilter(where, _columns_of(where, arrow_schema(schema.fields)))


def predicate_filter(predicate: Predicate, schema: TableSchema) -> RowFilter:
    """A condition that is read already."""
    pruning = bucket_pruning(predicate, schema)
    return RowFilter(to_expression(predicate), column_names(predicate), pruning)


def _columns_of(expression: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    """Those without which the expression cannot be bound to a schema: Arrow has no other way."""
    if (problem := _problem(expression, schema)) is not None:
        raise UsageError(
            f"the condition does not fit the table's columns: {problem}",
            where=str(expression),
            fix=f"the table has {', '.join(f'{field.name} {field.type}' for field in schema)}",
        )
    without = [schema.remove(place) for place in range(len(schema))]
    return tuple(
        name
        for name, others in zip(schema.names, without, strict=True)
        if _problem(expression, others) is not None
    )


def _problem(expression: pc.Expression, schema: pa.Schema) -> str | None:
    try:
        schema.empty_table().filter(expression)
    except (pa.ArrowException, TypeError) as error:
        return str(error)
    return None
