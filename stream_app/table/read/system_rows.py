"""Makes rows that show a table's metadata, for stream_app's listings and Paimon's system tables.

A row is an object of the metadata, such as a `Snapshot`. A fact is a function of a row. `inspect`
and Paimon's system tables are views, and only the facts that a view names are evaluated.
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

Fact = str | Callable[[Any], object]
"""A function of a row; a text is the path of an attribute, such as ``file.row_count``."""


def parsed_schema(text: str, *nested_fields: pa.Field) -> pa.Schema:
    """Parse columns from ``name TYPE [NOT NULL], …``, and append nested ones."""
    return pa.schema(
        [*(field.remove_metadata() for field in arrow_schema(parse_columns(text))), *nested_fields]
    )


def _no_facts(_: FileStoreTable) -> Mapping[str, Fact]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTable:
    """A system table, which is called with a table and a snapshot.

    Attributes:
        schema: Paimon's columns, which have the names of facts. Times are milliseconds of the local
            wall clock.
        rows: returns the rows of a table, in order.
        facts: returns the declared facts by name. Another name means the row's attribute.
    """

    schema: pa.Schema
    rows: Callable[[FileStoreTable, Snapshot | None], Iterable[Any]]
    facts: Callable[[FileStoreTable], Mapping[str, Fact]] = _no_facts

    def __call__(self, table: FileStoreTable, snapshot: Snapshot | None) -> pa.Table:
        """Return the rows in Paimon's columns."""
        values = self.values(table, self.rows(table, snapshot), self.schema.names)
        value_columns = list(zip(*values, strict=True)) or [()] * len(self.schema)
        arrays = [
            pa.array(list(column), field.type)
            for column, field in zip(value_columns, self.schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def values(
        self, table: FileStoreTable, rows: Iterable[Any], facts: Sequence[Fact]
    ) -> Iterator[tuple[object, ...]]:
        """Yield the values of `facts` for each row."""
        declared = self.facts(table)
        getters = []
        for fact in facts:
            attribute = declared.get(fact, fact) if isinstance(fact, str) else fact
            getters.append(attrgetter(attribute) if isinstance(attribute, str) else attribute)
        for row in rows:
            yield tuple(getter(row) for getter in getters)
