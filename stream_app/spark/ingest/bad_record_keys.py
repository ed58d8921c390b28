"""Keys of bad records, fetched when there are any.

Keys that nobody reads do not travel with the messages (see `route_blocks`). Then an epoch with bad
records reads its messages once more, for those keys only; Spark gives a micro-batch the same
messages each time.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stream_app.cdc.change_batch import BAD_RECORD_SCHEMA

_POSITION = ["topic", "partition", "offset"]


def with_keys(messages: DataFrame, bad: Sequence[pa.RecordBatch]) -> pa.Table:
    """Bad records with their keys, by topic, partition and offset.

    Args:
        messages: those of the epoch; columns of `MESSAGE_SCHEMA`.
        bad: batches of `BAD_RECORD_SCHEMA`.

    Returns:
        A table of `BAD_RECORD_SCHEMA`.
    """
    records = pa.Table.from_batches(bad, BAD_RECORD_SCHEMA)
    if records.num_rows:
        positions = messages.sparkSession.createDataFrame(records.select(_POSITION))
        wanted = messages.select(*_POSITION, "key").join(
            F.broadcast(positions), _POSITION, "left_semi"
        )
        # Files may say a position twice; a topic does not.
        found = wanted.toArrow().group_by(_POSITION, use_threads=False)
        keys = found.aggregate([("key", "first")]).rename_columns([*_POSITION, "key"])
        records = records.drop_columns("key").join(keys, _POSITION)
    return in_order(records.select(BAD_RECORD_SCHEMA.names).cast(BAD_RECORD_SCHEMA))


def in_order(records: pa.Table) -> pa.Table:
    """Records by topic, partition and offset, however the tasks brought them."""
    return records.sort_by([(name, "ascending") for name in _POSITION])
