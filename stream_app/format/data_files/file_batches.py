"""Determines the size and the types of batches, for data files of any format."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from stream_app.format.casting.nested_arrays import cast_with_members
from stream_app.format.data_files.damaged_files import damaged_file_error, printable_error

BATCH_SIZE = 4 << 20
"""The approximate Arrow bytes of a batch that is read; a merge has one or two of each run."""
_BATCH_ROWS_MIN = 128
"""The minimum number of rows of a batch, so that wide rows do not make tiny batches."""


def batch_row_count(row_size: float, batch_rows_max: int) -> int:
    """Return the number of rows of a batch: at most `batch_rows_max`, and about `BATCH_SIZE`."""
    return max(_BATCH_ROWS_MIN, min(batch_rows_max, int(BATCH_SIZE // max(1, row_size))))


def batch_pieces(rows: pa.RecordBatch, batch_rows_max: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch into smaller ones, of `batch_rows_max` rows and about `BATCH_SIZE` at most."""
    row_size = rows.nbytes / max(1, rows.num_rows)
    step = batch_row_count(row_size, batch_rows_max)
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


def conformed_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the names and types of `schema`, column by column in order.

    Matching columns are not copied. Files differ in three ways. INT96 timestamps come in
    nanoseconds and without a zone. In files with INT96, older versions of stream_app stored other
    timestamps as plain numbers. Other writers may use other string types.

    Raises:
        CorruptFileError: the number of columns differs, or the wanted type cannot hold a value.
    """
    if batch.schema.equals(schema):
        return batch
    if batch.num_columns != len(schema):
        raise damaged_file_error(
            f"a data file has {batch.num_columns} columns instead of {len(schema)}"
        )
    return pa.RecordBatch.from_arrays(
        [
            column if column.type == field.type else _cast(column, field)
            for column, field in zip(batch.columns, schema, strict=True)
        ],
        schema=schema,
    )


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return cast_with_members(column, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise damaged_file_error(
            f"column {field.name!r}, stored as {column.type}, cannot be read as {field.type}: "
            f"{printable_error(error)}"
        ) from error
