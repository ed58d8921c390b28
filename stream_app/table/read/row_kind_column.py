"""Row kinds as readers see them: ``+I``, ``-U``, ``+U`` or ``-D``, in front of the columns.

Source: Paimon `table/system/AuditLogTable.java`, `table/SpecialFields.java`.
"""

from __future__ import annotations

import pyarrow as pa

from stream_app.model.row_kind import RowKind

ROW_KIND = "rowkind"
"""Name of the column, as in Paimon's audit log."""
ROW_KIND_FIELD = pa.field(ROW_KIND, pa.string())
_TEXTS = pa.array([kind.short for kind in RowKind], pa.string())


def kind_texts(kinds: pa.Array) -> pa.Array:
    """The texts of `_VALUE_KIND` (int8)."""
    return _TEXTS.take(kinds)


def inserts(count: int) -> pa.Array:
    """As many ``+I``: every row of a table without a primary key."""
    return kind_texts(pa.repeat(pa.scalar(int(RowKind.INSERT), pa.int8()), count))
