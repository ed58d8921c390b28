"""Passes only inserts to a table without a primary key, which accepts nothing else.

An update or a delete has no key by which its row could be found. It stops the job, or its record
becomes a bad one, whatever else is in the batch.

Source: Paimon `append/AppendOnlyWriter.java`, which refuses every row but +I and +U.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.cdc.change_batch import ROW_KIND, DecodedBatch, message_place
from stream_app.errors import WrongSourceError
from stream_app.model.row_kind import RowKind

_OP_NAMES = {
    RowKind.UPDATE_BEFORE: "an update",
    RowKind.UPDATE_AFTER: "an update",
    RowKind.DELETE: "a delete",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertOnlyStep:
    """The step that refuses records that are not inserts. Implements `pipeline.Step`.

    Attributes:
        quarantines_non_inserts: whether records that are not inserts become bad ones. Otherwise
            such a record stops the job.
        ignores_deletes: whether deletes are skipped (``ignore-delete``).
    """

    quarantines_non_inserts: bool
    ignores_deletes: bool

    def __call__(self, decoded_batch: DecodedBatch, messages: pa.RecordBatch) -> DecodedBatch:
        """See `Step`.

        Raises:
            WrongSourceError: an update or a delete, unless such records are quarantined.
        """
        changes = decoded_batch.changes
        kinds: npt.NDArray[np.int8] = changes.rows.column(ROW_KIND).to_numpy()
        if not kinds.any():
            return decoded_batch
        skipped_count = 0
        is_dropped = np.zeros(len(kinds), np.bool_)
        if self.ignores_deletes:
            is_dropped = kinds == RowKind.DELETE
            skipped_count = len(np.unique(changes.message_indices[is_dropped]))
        refused_indices = np.flatnonzero((kinds != RowKind.INSERT) & ~is_dropped)
        message_indices, firsts = np.unique(
            changes.message_indices[refused_indices], return_index=True
        )
        first_kinds = kinds[refused_indices[firsts]]
        if len(message_indices) and not self.quarantines_non_inserts:
            raise _non_insert_error(messages, int(message_indices[0]), RowKind(int(first_kinds[0])))
        # A loop over bad records, which are few.
        reasons = {
            int(index): _non_insert_reason(RowKind(int(kind)))
            for index, kind in zip(message_indices, first_kinds, strict=True)
        }
        remaining_batch = replace(
            decoded_batch,
            changes=changes.where(~is_dropped),
            skipped_count=decoded_batch.skipped_count + skipped_count,
        )
        return remaining_batch.with_bad_records(messages, reasons)


def _non_insert_reason(row_kind: RowKind) -> str:
    return f"is {_OP_NAMES[row_kind]}, and the table has no primary key by which to find the row"


def _non_insert_error(
    messages: pa.RecordBatch, message_index: int, row_kind: RowKind
) -> WrongSourceError:
    return WrongSourceError(
        f"the record {_non_insert_reason(row_kind)}",
        where=message_place(messages, message_index),
        fix="give the table a key (primary-keys, for a new table); or quarantine such records "
        'with stream.non-insert-records = "quarantine"',
    )
