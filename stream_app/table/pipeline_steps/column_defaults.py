"""Inserts a column's DEFAULT where a change has null or no value.

Paimon's writer treats missing values and nulls alike, in all kinds of changes. Readers do not fill
in defaults.

Source: Paimon `table/sink/TableWriteImpl.java#wrapDefaultValue`, `casting/DefaultValueRow.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.change_batch import ChangeBatch, DecodedBatch
from stream_app.errors import UnsupportedTableError
from stream_app.format.casting.arrays import CastError
from stream_app.format.casting.rules import default_value
from stream_app.model.schema.data_type import DataField, RowType


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultsStep:
    """A step that fills in DEFAULTs. Implements `pipeline.Step`.

    Attributes:
        defaults: an array of one value for each column that has a DEFAULT.
    """

    defaults: Mapping[str, pa.Array]

    def __call__(self, decoded_batch: DecodedBatch, _: pa.RecordBatch) -> DecodedBatch:
        """Fill nulls by the defaults; a batch without such nulls stays the same object."""
        rows = decoded_batch.changes.rows
        for name, default in self.defaults.items():
            index = rows.schema.get_field_index(name)
            if rows.column(index).null_count:
                filled_column = pc.fill_null(rows.column(index), default[0])
                rows = rows.set_column(index, rows.schema.field(index), filled_column)
        if rows is decoded_batch.changes.rows:
            return decoded_batch
        changes = ChangeBatch(rows=rows, message_indices=decoded_batch.changes.message_indices)
        return replace(decoded_batch, changes=changes)


def defaults_step(columns: RowType) -> DefaultsStep | None:
    """Return the step of a table; None if no column has a DEFAULT.

    Raises:
        UnsupportedTableError: a DEFAULT is not a value of its column's type.
    """
    defaults = {
        column.name: _value(column, column.default_value)
        for column in columns
        if column.default_value is not None
    }
    return DefaultsStep(defaults=defaults) if defaults else None


def _value(column: DataField, text: str) -> pa.Array:
    try:
        return default_value(text, column.data_type)
    except CastError as error:
        raise UnsupportedTableError(
            f"column {column.name!r} has a DEFAULT that cannot be used: {error}",
            fix="give the column another DEFAULT, or none (ALTER TABLE)",
        ) from None
