"""Makes the record-level expire of a table by its options, and finds files with expired rows.

Source: Paimon `io/RecordLevelExpire.java`.
"""

from __future__ import annotations

from collections.abc import Callable

from stream_app.errors import StreamAppError
from stream_app.format.binary_row import deserialize_row
from stream_app.mergetree.compact.record_level_expire import MILLISECONDS_FROM, RecordLevelExpire
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.options.compaction_options import (
    RECORD_LEVEL_EXPIRE_TIME,
    RECORD_LEVEL_TIME_FIELD,
)
from stream_app.model.schema.data_type import TIMESTAMP_ROOTS, TypeRoot
from stream_app.table.file_store_table import FileStoreTable


def record_level_expire(table: FileStoreTable) -> RecordLevelExpire | None:
    """Return the rule of ``record-level.expire-time`` as of now; None if rows do not expire."""
    expire_ms = table.options[RECORD_LEVEL_EXPIRE_TIME]
    if expire_ms is None:
        return None
    time_min_s = table.clock.now_ms() // 1000 - expire_ms // 1000
    return RecordLevelExpire(table.options[RECORD_LEVEL_TIME_FIELD], time_min_s)


def expired_rows_predicate(table: FileStoreTable) -> Callable[[DataFileMeta], bool]:
    """Return a predicate that decides by a file's statistics whether it has expired rows."""
    if table.options[RECORD_LEVEL_EXPIRE_TIME] is None:
        return lambda _: False

    def has_expired_rows(file: DataFileMeta) -> bool:
        expire = record_level_expire(table)
        oldest_s = _oldest_seconds(table, file)
        return expire is not None and oldest_s is not None and oldest_s < expire.time_min_s

    return has_expired_rows


def _oldest_seconds(table: FileStoreTable, file: DataFileMeta) -> int | None:
    """Return the oldest time in a file; None if its statistics lack it."""
    column = table.schema.fields.field(table.options[RECORD_LEVEL_TIME_FIELD])
    try:
        schema = table.schema
        if file.schema_id != schema.schema_id:
            schema = table.schemas.schema(file.schema_id)
    except (FileNotFoundError, StreamAppError):
        return None
    if not file.value_stats.null_counts:
        return None
    names = schema.fields.names if file.value_stats_cols is None else file.value_stats_cols
    fields = [schema.fields.field(name) for name in names]
    field_ids = [field.field_id for field in fields]
    column_index = field_ids.index(column.field_id) if column.field_id in field_ids else None
    if column_index is None or fields[column_index].data_type.root is not column.data_type.root:
        return None  # a column of another type may use another unit
    values = deserialize_row(
        file.value_stats.min_values, [field.data_type.as_nullable() for field in fields]
    )
    oldest_time = values[column_index]
    if not isinstance(oldest_time, int):
        return None
    root = fields[column_index].data_type.root
    if root in TIMESTAMP_ROOTS:
        return oldest_time // 1_000_000_000
    has_milliseconds = root is TypeRoot.BIGINT and oldest_time >= MILLISECONDS_FROM
    return oldest_time // 1000 if has_milliseconds else oldest_time
