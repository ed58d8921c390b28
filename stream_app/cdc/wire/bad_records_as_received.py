"""Restores the received bytes in bad records, for formats that decode only a part of a message."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools
from stream_app.cdc.change_batch import BAD_RECORD_ORDER, bad_records_with_reasons

_PLACE = ("topic", "partition", "offset")


def with_received_bytes(bad_records: pa.RecordBatch, messages: pa.RecordBatch) -> pa.RecordBatch:
    """Return the bad records with the original bytes of their messages, in the same order."""
    if not bad_records.num_rows:
        return bad_records
    rows = pc.index_in(_places(bad_records), _places(messages)).to_pylist()
    reasons = dict(zip(rows, bad_records.column("reason").to_pylist(), strict=True))
    return bad_records_with_reasons(messages, reasons).sort_by(BAD_RECORD_ORDER)


def bad_record_mask(messages: pa.RecordBatch, bad_records: pa.RecordBatch) -> Bools:
    """Mark the messages that are among the bad records: bool [n]."""
    is_bad: Bools = np.asarray(pc.is_in(_places(messages), _places(bad_records)))
    return is_bad


def _places(messages: pa.RecordBatch) -> pa.Array:
    columns = [messages.column(name).cast(pa.string()) for name in _PLACE]
    return pc.binary_join_element_wise(*columns, "\0", null_handling="replace")
