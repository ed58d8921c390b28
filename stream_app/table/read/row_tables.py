"""System tables that show the rows of the table itself, in another way.

Source: Paimon `table/system/AuditLogTable.java`, `BinlogTable.java`, `ReadOptimizedTable.java`.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.projection import ROW_KIND


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTable:
    """How rows are shown.

    Attributes:
        row_kind: a column ``rowkind`` in front, and deletes that no compaction has taken away.
        in_lists: each value is a list of one; a stream of Paimon's has two in an update.
        top_level: only what a full compaction has merged; nothing is merged to read it.
    """

    row_kind: bool = False
    in_lists: bool = False
    top_level: bool = False

    def least_level(self, table: FileStoreTable) -> int | None:
        """The lowest level whose files are read; None: as usual."""
        if not self.top_level or not table.kind.merges_by_key:
            return None
        return table.options.num_levels - 1

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """The columns, of those of the rows."""
        return pa.schema([self._shown(field) for field in rows])

    def batch(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as they are shown."""
        if not self.in_lists:
            return rows
        offsets = pa.array(range(rows.num_rows + 1), pa.int32())
        arrays = [
            column if field.name == ROW_KIND else pa.ListArray.from_arrays(offsets, column)
            for field, column in zip(rows.schema, rows.columns, strict=True)
        ]
        shown = self.schema(rows.schema)
        arrays = [column.cast(field.type) for column, field in zip(arrays, shown, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=shown)

    def _shown(self, field: pa.Field) -> pa.Field:
        if not self.in_lists or field.name == ROW_KIND:
            return field
        return pa.field(field.name, pa.list_(field.type))


ROWS = RowTable()
ROW_TABLES = {
    "audit_log": RowTable(row_kind=True),
    "binlog": RowTable(row_kind=True, in_lists=True),
    "ro": RowTable(top_level=True),
}
"""By name."""
