"""Quarantines records with a value that no merge accepts.

An unreadable bitmap or sketch can be stored while its key has one row. So can a zero by which
``product`` would divide. After the key's next row, every read and every compaction would fail.

Source: Paimon `mergetree/compact/aggregate/Field{RoaringBitmap32,RoaringBitmap64,HllSketch,
ThetaSketch,Product}Agg.java`, which fail there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.change_batch import ROW_KIND, ChangeBatch, DecodedBatch
from stream_app.mergetree.merge_engines.aggregates.unions import UNIONS, unreadable_set
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.merge_options import IGNORE_DELETE
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import FLOAT_ROOTS
from stream_app.model.schema.merge.aggregate_function import AGGREGATE_FUNCTIONS
from stream_app.model.schema.merge.merge_rules import ColumnAggregate
from stream_app.model.schema.table_schema import TableSchema

_RETRACT_KINDS = [int(RowKind.UPDATE_BEFORE), int(RowKind.DELETE)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeableValueStep:
    """A step that quarantines values that no merge accepts. Implements `pipeline.Step`.

    Attributes:
        sets: the columns of bitmaps and sketches.
        products: the columns of products, which -U and -D rows divide.
    """

    sets: tuple[ColumnAggregate, ...]
    products: tuple[ColumnAggregate, ...]

    def __call__(self, decoded_batch: DecodedBatch, messages: pa.RecordBatch) -> DecodedBatch:
        """See `Step`."""
        reasons: dict[int, str] = {}
        for aggregate in self.sets:
            reasons |= _unreadable_values(aggregate, decoded_batch.changes)
        for aggregate in self.products:
            reasons |= _divided_by_zero(aggregate, decoded_batch.changes)
        return decoded_batch.with_bad_records(messages, reasons)


def mergeable_value_step(schema: TableSchema) -> MergeableValueStep | None:
    """Return the step of a table; None if its columns' functions accept every value."""
    aggregates = [
        aggregate for aggregate in schema.merge_rules.aggregates.values() if aggregate.column
    ]
    sets = tuple(aggregate for aggregate in aggregates if aggregate.function in UNIONS)
    products = tuple(aggregate for aggregate in aggregates if _divides(aggregate, schema))
    if not sets and not products:
        return None
    return MergeableValueStep(sets=sets, products=products)


def _divides(aggregate: ColumnAggregate, schema: TableSchema) -> bool:
    """Return whether deletes divide the column, and zero is an error, as it is not for floats."""
    is_float = schema.fields.field(aggregate.column).data_type.root in FLOAT_ROOTS
    options: CoreOptions = schema.core_options
    is_divided = (
        AGGREGATE_FUNCTIONS[aggregate.function].retracts_by_division
        and not aggregate.ignores_retract
    )
    return is_divided and not is_float and not options[IGNORE_DELETE]


def _unreadable_values(aggregate: ColumnAggregate, changes: ChangeBatch) -> dict[int, str]:
    """Return the reasons by message for unreadable values; as a merge, it loops over values."""
    column, function = aggregate.column, aggregate.function
    values = changes.rows.column(column).to_pylist()
    return {
        int(index): f"column {column!r}: {function} cannot read the value: {problem}"
        for index, value in zip(changes.message_indices, values, strict=True)
        if value is not None and (problem := unreadable_set(function, value)) is not None
    }


def _divided_by_zero(aggregate: ColumnAggregate, changes: ChangeBatch) -> dict[int, str]:
    column = changes.rows.column(aggregate.column)
    # Among integers and decimals, only zero has the sign 0.
    is_zero = pc.fill_null(pc.equal(pc.sign(column), 0), fill_value=False)
    is_retract = np.isin(changes.rows.column(ROW_KIND).to_numpy(), _RETRACT_KINDS)
    indices = np.flatnonzero(is_retract & is_zero.to_numpy(zero_copy_only=False))
    name, function = aggregate.column, aggregate.function
    reason = f"takes 0 back from column {name!r}, and {function} cannot divide by it"
    return {int(index): reason for index in changes.message_indices[indices]}
