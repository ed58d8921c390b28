"""Selects the rows and columns of a read: the last step of `split_read` and `incremental_read`.

On request a column ``rowkind`` (``+I``, ``-U``, ``+U`` or ``-D``) precedes the others.

Source: Paimon `table/system/AuditLogTable.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from stream_app.errors import UsageError
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.near_names import unknown_name
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.predicate.parser import parse_call
from stream_app.predicate.predicate import Call, InnerField
from stream_app.predicate.predicate_functions import CONDITION_FUNCTIONS
from stream_app.table.conditions.row_filter import RowFilter
from stream_app.table.file_store_table import FileStoreTable

ROW_KIND_NAME = "rowkind"
"""Name of the column, as in Paimon's audit log."""
ROW_KIND_FIELD = pa.field(ROW_KIND_NAME, pa.string())
_TEXTS = pa.array([kind.short for kind in RowKind], pa.string())


@dataclass(frozen=True, slots=True)
class Selection:
    """The requested rows and columns of a table.

    Attributes:
        columns: names and functions of columns, such as ``array_contains(tags, 'x')``, in the order
            of the result; None: all columns.
        row_filter: the condition on rows, which may use other columns than `columns`.
        shows_row_kinds: whether to prepend the column ``rowkind``.
        calls: the functions among `columns`, by their text.

    Raises:
        UsageError: the table lacks a column, a name occurs twice, or a function does not fit its
            column.
    """

    table: FileStoreTable
    columns: tuple[str, ...] | None = None
    row_filter: RowFilter | None = None
    shows_row_kinds: bool = False
    calls: Mapping[str, Call] = field(init=False)

    def __post_init__(self) -> None:
        fields = self.table.schema.fields
        names = fields.names
        column_texts = self.columns or ()
        calls = {
            text: whole_column_call(text, fields)
            for text in column_texts
            if text not in names and text.partition("(")[0].strip() in CONDITION_FUNCTIONS
        }
        object.__setattr__(self, "calls", calls)
        unknown_names = [name for name in column_texts if name not in names and name not in calls]
        if unknown_names:
            raise UsageError(
                "; ".join(unknown_name("column", name, names) for name in unknown_names),
                where=self.table.location,
                fix=f"name columns that the table has: {', '.join(names)}",
            )
        repeated_names = [
            name for name in dict.fromkeys(column_texts) if column_texts.count(name) > 1
        ]
        if repeated_names:
            raise UsageError(f"column {repeated_names[0]!r} is named twice", fix="name each once")

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the result."""
        fields = self.table.schema.fields
        names = fields.names if self.columns is None else self.columns
        schema = arrow_schema(
            RowType(tuple(self.calls.get(name) or fields.field(name) for name in names))
        )
        return pa.schema([ROW_KIND_FIELD, *schema]) if self.shows_row_kinds else schema

    @property
    def needed_columns(self) -> frozenset[str]:
        """The table's columns that the result and the condition need."""
        names = self.table.schema.fields.names if self.columns is None else self.columns
        result_columns = (
            self.calls[name].column.name if name in self.calls else name for name in names
        )
        return frozenset((*result_columns, *(self.row_filter.columns if self.row_filter else ())))

    def select(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the requested rows and columns of a batch with all needed columns."""
        if self.row_filter is not None:
            batch = batch.filter(self.row_filter.expression)
        names = self.table.schema.fields.names if self.columns is None else self.columns
        columns = [self._values(batch, name) for name in names]
        if self.shows_row_kinds:
            columns.insert(0, kind_texts(batch))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _values(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        call = self.calls.get(name)
        if call is None:
            return batch.column(name)
        return call.compute(batch.column(call.column.name), *call.literals)


def whole_column_call(text: str, fields: RowType) -> Call:
    """Parse a function of a whole column, which replaces a column's name.

    Raises:
        UsageError: the text is not such a function, or the function reads a nested field.
    """
    call = parse_call(text, fields, CONDITION_FUNCTIONS)
    if not isinstance(call, Call) or isinstance(call.column, InnerField):
        raise UsageError(
            f"{text} is not a function of a whole column",
            where="the columns of a read",
            fix="write for example variant_get(doc, '$.total', 'INT')",
        )
    return replace(call, name=text)


def kind_texts(batch: pa.RecordBatch) -> pa.Array:
    """Return the kind of each row: string [n]. Without `_VALUE_KIND` all rows are ``+I``."""
    if VALUE_KIND in batch.schema.names:
        return _TEXTS.take(batch.column(VALUE_KIND))
    return insert_kinds(batch.num_rows)


def insert_kinds(count: int) -> pa.Array:
    """Return a column of ``+I``: string [count]."""
    return pa.repeat(_TEXTS[int(RowKind.INSERT)], count)
