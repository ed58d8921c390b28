"""Makes rows that show a table's metadata, for stream_app's listings and Paimon's system tables.

A row is an object of the metadata, such as a `Snapshot`. A getter returns a column's value of it.
`inspect` and Paimon's system tables are views, and a view calls only the getters of its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pyarrow as pa

from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable

ColumnGetter = str | Callable[[Any], object]
"""Returns a column's value of a row; a text is an attribute's path, such as ``file.row_count``."""


def parsed_schema(text: str, *nested_fields: pa.Field) -> pa.Schema:
    """Parse columns from ``name TYPE [NOT NULL], …``, and append nested ones."""
    return pa.schema(
        [*(field.remove_metadata() for field in arrow_schema(parse_columns(text))), *nested_fields]
    )


def _no_getters(_: FileStoreTable) -> Mapping[str, ColumnGetter]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTable:
    """A system table, which is called with a table and a snapshot.

    Attributes:
        schema: Paimon's columns. Times are milliseconds of the local wall clock.
        read_rows: returns the rows of a table, in order.
        make_getters: returns name → getter, also for names that are no column of Paimon's. A column
            without a getter shows the row's attribute of its name.
    """

    schema: pa.Schema
    read_rows: Callable[[FileStoreTable, Snapshot | None], Iterable[Any]]
    make_getters: Callable[[FileStoreTable], Mapping[str, ColumnGetter]] = _no_getters

    def __call__(self, table: FileStoreTable, snapshot: Snapshot | None) -> pa.Table:
        """Return the rows in Paimon's columns."""
        values = self.values(table, self.read_rows(table, snapshot), self.schema.names)
        value_columns = list(zip(*values, strict=True)) or [()] * len(self.schema)
        arrays = [
            pa.array(list(column), field.type)
            for column, field in zip(value_columns, self.schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def values(
        self, table: FileStoreTable, rows: Iterable[Any], columns: Sequence[ColumnGetter]
    ) -> Iterator[tuple[object, ...]]:
        """Yield the columns' values for each row; a text can also be the name of a getter."""
        declared_getters = self.make_getters(table)
        functions = []
        for column in columns:
            getter = declared_getters.get(column, column) if isinstance(column, str) else column
            functions.append(attrgetter(getter) if isinstance(getter, str) else getter)
        for row in rows:
            yield tuple(function(row) for function in functions)
