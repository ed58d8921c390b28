"""The origin of rows: a table of the source, by database, schema and table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """A table of the source. PostgreSQL names a schema, MySQL none.

    Attributes:
        database, schema: empty where the messages lack them.
    """

    database: str
    schema: str
    table: str

    def __str__(self) -> str:
        return ".".join(filter(None, (self.database, self.schema, self.table)))
