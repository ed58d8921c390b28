"""Computes the checksum of rows. docs/operate/checksums.md defines it for other programs.

Machine code hashes the rows if the extra `compiled` is installed. Otherwise Arrow makes their
texts, and Python's library hashes them: the numbers are equal, and take ten times as long.
File writers sum up changes as they write them; `table.read.sum_record_of_rows` sums up tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from stream_app.format.row_hash.md5_lanes import UInt64s, md5_lanes
from stream_app.format.row_hash.row_texts import PlacedColumn, plain_values, row_texts
from stream_app.machine_code.loaded_code import loaded_code
from stream_app.model.checksum.row_sum import NO_ROWS, ChangeSum, RowSum
from stream_app.model.checksum.sum_conditions import has_text
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.table_schema import VALUE_KIND

_MODULE = "stream_app.format.row_hash.compiled.hashed_columns"
_ROWS_AT_ONCE = 65_536
"""The number of rows whose texts are in memory at the same time."""


def summed_columns(fields: RowType) -> list[PlacedColumn]:
    """Return the columns of a table's checksum; empty if a column has no canonical text."""
    columns = list(enumerate(fields))
    return columns if all(has_text(field.data_type) for _, field in columns) else []


def row_hashes(
    rows: pa.RecordBatch, columns: Sequence[PlacedColumn], *, uses_machine_code: bool = True
) -> tuple[UInt64s, UInt64s]:
    """Return the two hash numbers of each row: uint64 [n] and uint64 [n].

    Args:
        uses_machine_code: whether machine code may hash them.
    """
    code, _ = loaded_code(_MODULE) if uses_machine_code else (None, "")
    if code is None:
        return md5_lanes(*row_texts(rows, columns))
    values = [
        (column_index, plain_values(rows.column(field.name), field.data_type))
        for column_index, field in columns
    ]
    hashes: tuple[UInt64s, UInt64s] = code.hashed_columns(values, rows.num_rows)
    return hashes


def sum_of_rows(rows: pa.RecordBatch | pa.Table, columns: Sequence[PlacedColumn]) -> RowSum:
    """Return the checksum of rows, whatever their kind."""
    total = NO_ROWS
    for batch in _pieces(rows):
        high, low = row_hashes(batch, columns)
        total += RowSum(batch.num_rows, int(high.sum()), int(low.sum()))
    return total


def sum_of_changes(
    changes: pa.RecordBatch | pa.Table, columns: Sequence[PlacedColumn]
) -> ChangeSum:
    """Return the checksum of added rows (+I, +U) minus that of removed rows (-U, -D).

    Args:
        changes: rows with `_VALUE_KIND`.
    """
    total = NO_ROWS
    update_before_count = 0
    update_after_count = 0
    for batch in _pieces(changes):
        high, low = row_hashes(batch, columns)
        kinds = batch.column(VALUE_KIND).to_numpy()
        signs = 1 - 2 * (kinds & 1).astype(np.int64)
        sign_words = signs.view(np.uint64)  # a product modulo 2^64 is that of the signed number
        total += RowSum(int(signs.sum()), int(sign_words @ high), int(sign_words @ low))
        update_before_count += int(np.count_nonzero(kinds == RowKind.UPDATE_BEFORE))
        update_after_count += int(np.count_nonzero(kinds == RowKind.UPDATE_AFTER))
    return ChangeSum(total, update_after_count - update_before_count)


def _pieces(rows: pa.RecordBatch | pa.Table) -> list[pa.RecordBatch]:
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    batches: list[pa.RecordBatch] = table.to_batches(max_chunksize=_ROWS_AT_ONCE)
    return batches
