"""The statements of a source that alter, rename, create or drop tables.

`cdc.ddl.ddl_parser` reads them from text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TableName(NamedTuple):
    """A table in a statement; without a database it is in the statement's default database."""

    database: str
    table: str


class Renaming(NamedTuple):
    """A column's old and new name."""

    old_name: str
    new_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable:
    """ALTER TABLE.

    Attributes:
        renames: the renamed columns, in the order of the statement.
        added_columns, dropped_columns: the names of columns.
        new_name: the table's new name; None if it keeps its name.
    """

    table: TableName
    renames: tuple[Renaming, ...] = ()
    added_columns: tuple[str, ...] = ()
    dropped_columns: tuple[str, ...] = ()
    new_name: TableName | None = None


@dataclass(frozen=True, slots=True)
class RenameTable:
    """RENAME TABLE: pairs of old and new name, in the order of the statement."""

    pairs: tuple[tuple[TableName, TableName], ...]


@dataclass(frozen=True, slots=True)
class CreateOrDropTable:
    """CREATE TABLE or DROP TABLE, after which the earlier table of the name does not exist."""

    tables: tuple[TableName, ...]


Statement = AlterTable | RenameTable | CreateOrDropTable
