"""Lists the aggregate functions by name.

A new aggregate function needs a function in this package, a line below, and traits in
`model.schema.merge.aggregate_function`.

Source: Paimon `mergetree/compact/aggregate/factory/FieldAggregatorFactory.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from stream_app.errors import MergeError
from stream_app.mergetree.merge_engines.aggregates.chosen_values import (
    first_non_null_value,
    first_value,
    largest,
    last_non_null_value,
    last_row,
    last_value,
    smallest,
)
from stream_app.mergetree.merge_engines.aggregates.collected import (
    collect_elements,
    merge_maps,
    update_rows,
    update_rows_partially,
)
from stream_app.mergetree.merge_engines.aggregates.limited_elements import merge_maps_by_time
from stream_app.mergetree.merge_engines.aggregates.listagg import join_texts
from stream_app.mergetree.merge_engines.aggregates.segment_changes import (
    ANY_COLUMN,
    SegmentChanges,
    SegmentValues,
)
from stream_app.mergetree.merge_engines.aggregates.sums import product_of_values, sum_values
from stream_app.mergetree.merge_engines.aggregates.unions import union_of
from stream_app.model.schema.merge.merge_rules import ColumnAggregate

Aggregate = Callable[[pa.Array, SegmentChanges, ColumnAggregate], SegmentValues]
"""An aggregate function over the segments of a window, which are the runs of rows with equal keys.

It gets a column of the window's batch, the changes of all segments, and the column's options. It
returns one value for each segment.
"""

AGGREGATES: Mapping[str, Aggregate] = {
    "bool_and": smallest("bool_and"),
    "bool_or": largest("bool_or"),
    "collect": collect_elements,
    "first_non_null_value": first_non_null_value,
    "first_not_null_value": first_non_null_value,
    "first_value": first_value,
    "last_non_null_value": last_non_null_value,
    "last_value": last_value,
    "hll_sketch": union_of("hll_sketch"),
    "listagg": join_texts,
    "max": largest("max"),
    "merge_map": merge_maps,
    "merge_map_with_keytime": merge_maps_by_time,
    "min": smallest("min"),
    "nested_partial_update": update_rows_partially,
    "nested_update": update_rows,
    "primary-key": last_row,
    "product": product_of_values,
    "rbm32": union_of("rbm32"),
    "rbm64": union_of("rbm64"),
    "sum": sum_values,
    "theta_sketch": union_of("theta_sketch"),
}
"""The value of ``fields.<column>.aggregate-function`` → the function."""


def fold_column(
    column: pa.Array, changes: SegmentChanges, aggregate: ColumnAggregate
) -> SegmentValues:
    """Fold a column into one value for each segment.

    Raises:
        MergeError: the function cannot undo a row of kind -U or -D, or read a value.
    """
    if aggregate.ignores_retract:
        changes = changes.without_retracts()
    try:
        return AGGREGATES[aggregate.function](column, changes, aggregate)
    except MergeError as error:
        problem = (
            f"column {aggregate.column!r}: {error.problem}" if aggregate.column else error.problem
        )
        fix = error.fix.replace(ANY_COLUMN, aggregate.column or ANY_COLUMN)
        raise MergeError(problem, where=error.where, fix=fix) from error
